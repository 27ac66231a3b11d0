"""Texts are cut at sentences' ends only, and no batch holds more than a bounded number of tokens."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attar.reader.texts import LONGEST_PIECE, TOKENS_AT_ONCE, Reading, cut_at_ends, in_step, piece_length
from attar.text import NameTable
from attar.text.reading import ReadText


def text_of(*sentences: int) -> ReadText:
    """A text of sentences of so many tokens, its ids counting on from 0."""
    count = sum(sentences)
    ends = np.zeros(count, np.bool_)
    ends[np.cumsum(sentences, dtype=np.intp) - 1] = True
    return ReadText(np.arange(count, dtype=np.int32), ends, np.full(count, -1, np.int32))


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 20))
def test_pieces_are_whole_sentences_and_together_the_text(sentences, tokens):
    text = text_of(*sentences)
    pieces = cut_at_ends(text, tokens)
    assert np.concatenate([piece.ids for piece in pieces]).tolist() == text.ids.tolist()
    assert all(piece.sentence_ends[-1] for piece in pieces)


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 20))
def test_a_piece_just_reaches_the_tokens_it_should_have(sentences, tokens):
    pieces = cut_at_ends(text_of(*sentences), tokens)
    assert all(len(piece) >= tokens for piece in pieces[:-1])
    for piece in pieces:
        assert tokens > np.flatnonzero(piece.sentence_ends[:-1]).max(initial=-1) + 1


def test_a_last_sentence_that_is_not_marked_ends_with_the_text():
    text = ReadText(np.arange(4, dtype=np.int32), np.array([0, 1, 0, 0], np.bool_), np.full(4, -1, np.int32))
    assert [len(piece) for piece in cut_at_ends(text, 2)] == [2, 2]


@given(st.integers(1, 10**7), st.integers(1, 64))
def test_a_step_is_bounded_whatever_the_texts(longest, count):
    length = piece_length(longest, count)
    assert 1 <= length <= LONGEST_PIECE
    assert length * count <= TOKENS_AT_ONCE


def test_texts_that_have_ended_leave_the_batch():
    readings = [Reading(text_of(*[10] * count), NameTable()) for count in (100, 1_000, 300)]
    steps = list(in_step(readings))
    assert [texts for texts, _, _ in steps] == [[0, 1, 2], [1], [1]]
    assert [rows for _, rows, _ in steps] == [[0, 1, 2], [1], [0]]
    assert sum(int(documents.lengths.sum()) for _, _, documents in steps) == 14_000


def test_a_text_that_must_be_whole_is_one_piece():
    readings = [Reading(text_of(*[10] * 1_000), NameTable())]
    assert [documents.ids.shape[1] for _, _, documents in in_step(readings, whole=True)] == [10_000]
