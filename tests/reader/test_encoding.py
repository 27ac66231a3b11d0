"""A reader may keep only one of the phrases that are the same answer."""

import re

import numpy as np
import pytest

from attar.reader.reader import Reader
from tests.reader.texts import ODD, SHORT, check_sound, story


@pytest.fixture
def distinct(parts, changed) -> Reader:
    return Reader(changed(parts, density=10.0, distinct=True))


def phrases_of(memory) -> list[str]:
    return memory.phrases.texts_of(np.arange(len(memory.phrases)))


def test_of_phrases_with_an_article_or_marks_around_them_the_likeliest_is_kept(parts, changed, distinct):
    text = "The letter, in the house, was a letter to Ann."
    every = Reader(changed(parts, density=10.0)).read(text).phrases
    best: dict[tuple[int, int], tuple[float, str]] = {}
    for at in range(len(every)):
        phrase, start = every.text_of(at), int(every.starts[at])
        core = re.sub(r"^(?:(?:the|a|,|\.)\s*)*|[\s,.]*$", "", phrase, flags=re.IGNORECASE)
        if core:
            first = start + phrase.index(core)
            likely = float(every.priors[at]), phrase
            best[first, first + len(core)] = max(best.get((first, first + len(core)), likely), likely)
    expected = sorted(phrase for _, phrase in best.values())
    kept = phrases_of(distinct.read(text))
    assert sorted(text for text in kept if text.strip(" ,.").lower() not in ("", "the", "a")) == expected
    assert len(expected) < len(every)


@pytest.mark.parametrize("text", [SHORT, story(60), *ODD.values()], ids=["short", "story", *ODD])
def test_any_text_is_read(parts, changed, text):
    check_sound(Reader(changed(parts, distinct=True)).read(text), text)
