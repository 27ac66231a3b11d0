"""A translator with one lookup per word learns two made-up languages."""

import re

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def printed(run_example):
    return run_example("translation.py", "--steps", 200, "--lengths", "10,20000")


def test_most_new_sentences_are_translated_correctly(printed, share):
    accuracy = re.match(r"gated, 200 steps: (\S+) of 500 new sentences", printed)
    assert share(accuracy[1]) > 0.8


def test_word_order_agreement_and_gender_of_a_translation(printed):
    source, target = printed.splitlines()[1:3]
    assert source == "the wet luns call the lur and a new kits like the kin"
    assert target == "LUNS WET-o THE-o LUR THE-e CALLS ET KITS NEW-e A-e KIN THE-e LIKES"
