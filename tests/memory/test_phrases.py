"""The index of phrases: written, read, joined and taken apart."""

import struct
import zlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import RecordError
from attar.memory.phrases import JOINT, PhraseIndex
from tests.memory.made import index_of, texts_of

A = "Ann Lee left. Bob ran home on Monday."
B = "Zoë 🙂 met Tom in 1999! He \ud800 slept.\n\nThen it rained."


def check_places(index: PhraseIndex, text: str) -> None:
    """Each phrase is the text at its place, inside its sentence."""
    assert index.characters == len(text)
    for at in range(len(index)):
        start, (first, last) = int(index.starts[at]), index.sentence_of(at)
        end = start + int(index.lengths[at])
        assert index.text_of(at) == text[start:end]
        assert first <= start < end <= last


texts = st.lists(
    st.sampled_from(["Ann", "Bob Lee", "ran.", "\n\n", "🙂", "é", "\ud800", "The", "x" * 300, "He left."]),
    max_size=12,
).map(" ".join)


class TestIndex:
    @pytest.mark.parametrize("text", [A, B, "", "   ", "One"], ids=["a", "b", "empty", "blank", "word"])
    def test_bytes_give_the_same_index(self, text):
        index = index_of(text)
        read = PhraseIndex.from_bytes(index.to_bytes())
        assert read == index
        assert read.to_bytes() == index.to_bytes()
        check_places(read, text)

    @settings(deadline=None)
    @given(texts, texts)
    def test_adding_indexes_gives_that_of_the_joined_text(self, a, b):
        both = index_of(a).add(index_of(b))
        joined = index_of(a + JOINT + b if a else b, tail_from=len(index_of(a).sentence_starts))
        check_places(both, a + JOINT + b if a else b)
        for name in ("starts", "lengths", "sentences", "words", "word_starts", "sentence_starts", "covered"):
            assert np.array_equal(getattr(both, name), getattr(joined, name)), name
        assert both.tail_phrases == len(index_of(a))

    @settings(deadline=None)
    @given(texts, st.integers(0, 2**16))
    def test_some_phrases_can_be_taken(self, text, bits):
        index = index_of(text)
        kept = np.array([at for at in range(len(index)) if bits >> at % 16 & 1], np.intp)
        taken = index.take(kept)
        assert texts_of(taken) == [index.text_of(at) for at in kept]
        assert PhraseIndex.from_bytes(taken.to_bytes()) == taken


class TestDamage:
    def damaged(self, **changes) -> bytes:
        return replace(index_of(A, tail_from=1), **changes).to_bytes()

    @pytest.mark.parametrize(
        "changes",
        [
            {"characters": 3},
            {"characters": 2**63},
            {"starts": np.zeros(0)},
            {"starts": np.arange(10)[::-1]},
            {"lengths": np.ones(3)},
            {"lengths": np.full(10, 60_000)},
            {"priors": np.full(10, np.nan)},
            {"priors": np.full(10, np.inf)},
            {"priors": np.ones(1)},
            {"sentence_starts": np.zeros(0)},
            {"sentence_starts": np.zeros(3)},
            {"sentence_lengths": np.full(2, 2**31)},
            {"word_starts": np.zeros(0)},
            {"word_starts": np.array([0, 9, 6])},
            {"word_starts": np.array([1, 3, 6])},
            {"words": np.zeros(99)},
            {"covered": ""},
            {"covered": A * 2},
            {"tail": A * 2},
            {"tail_phrases": 11},
            {"tail_phrases": -1},
            {"tail_sentences": 3},
        ],
        ids=lambda changes: " ".join(changes),
    )
    def test_an_index_whose_parts_disagree_is_refused(self, changes):
        with pytest.raises(RecordError, match="the index of phrases is damaged") as refused:
            PhraseIndex.from_bytes(self.damaged(**changes))
        assert "\n" not in str(refused.value)

    def test_a_text_that_expands_without_end_is_not_expanded(self):
        claimed = struct.pack("<QQ", 37, 10_000_000)
        with pytest.raises(RecordError, match="10000000 bytes for a text of 37 characters"):
            PhraseIndex.from_bytes(claimed + zlib.compress(b"a" * 10_000_000))
        claimed = struct.pack("<QQ", 37, 1_000)
        with pytest.raises(RecordError, match="other than 1000 bytes"):
            PhraseIndex.from_bytes(claimed + zlib.compress(b"a" * 10_000_000))

    @pytest.mark.parametrize("data", [b"", b"\x00", b"\xc1", b"\x90", msgspec.msgpack.encode({"a": 1})])
    def test_other_bytes_are_refused(self, data):
        with pytest.raises(RecordError):
            PhraseIndex.from_bytes(data)

    def test_any_cut_is_refused(self):
        written = index_of(B).to_bytes()
        for length in range(len(written)):
            with pytest.raises(RecordError):
                PhraseIndex.from_bytes(written[:length])
