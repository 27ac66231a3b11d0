"""Any name is a key, none is taken for another, and keys come in the order of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import OptionError
from attar.store.keys import PLAIN, is_long, key_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("name", ["a/b/../c", "two\nlines", "\0", "Ωμέγα 🜁", " ", "x" * 10_000, "é" * 10_000])
def test_any_name_is_a_key_that_fits(name: str) -> None:
    assert 0 < len(b"f" + key_of(name)) <= 511


@pytest.mark.parametrize(("name", "message"), [("", "at least one character"), ("\ud800", "surrogate")])
def test_what_is_no_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        key_of(name)


@given(TEXTS, TEXTS)
def test_keys_of_short_names_are_ordered_as_the_names(one: str, other: str) -> None:
    assert (key_of(one) < key_of(other)) == (one < other)


def test_long_names_that_begin_alike_have_different_keys() -> None:
    assert key_of("x" * 999) != key_of("x" * 1000)


def test_no_short_name_has_the_key_of_a_long_one() -> None:
    lookalike = key_of("x" * 999).decode("latin-1")
    assert is_long(key_of("x" * 999))
    assert key_of(lookalike) != key_of("x" * 999)
    assert len(key_of("x" * PLAIN)) < len(key_of("x" * (PLAIN + 1)))
