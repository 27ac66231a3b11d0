"""Texts are cut at sentence ends only, and the tokens per batch are bounded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attar.reader.batches import (
    LONGEST_PIECE,
    TOKENS_PER_BATCH,
    PendingText,
    iterate_batches,
    piece_length,
    split_at_sentences,
)
from attar.text.name_table import NameTable
from attar.text.reading import ReadText


def text_of(*sentences: int) -> ReadText:
    """A text of sentences with these numbers of tokens; its ids count from 0."""
    count = sum(sentences)
    ends = np.zeros(count, np.bool_)
    ends[np.cumsum(sentences, dtype=np.intp) - 1] = True
    return ReadText(np.arange(count, dtype=np.int32), ends, np.full(count, -1, np.int32))


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 20))
def test_pieces_are_whole_sentences_and_concatenate_to_the_text(sentences, tokens):
    text = text_of(*sentences)
    pieces = split_at_sentences(text, tokens)
    assert np.concatenate([piece.ids for piece in pieces]).tolist() == text.ids.tolist()
    assert all(piece.sentence_ends[-1] for piece in pieces)


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 20))
def test_a_piece_ends_with_the_sentence_that_reaches_the_length(sentences, tokens):
    pieces = split_at_sentences(text_of(*sentences), tokens)
    assert all(len(piece) >= tokens for piece in pieces[:-1])
    for piece in pieces:
        assert tokens > np.flatnonzero(piece.sentence_ends[:-1]).max(initial=-1) + 1


def test_a_last_sentence_without_a_mark_ends_with_the_text():
    text = ReadText(np.arange(4, dtype=np.int32), np.array([0, 1, 0, 0], np.bool_), np.full(4, -1, np.int32))
    assert [len(piece) for piece in split_at_sentences(text, 2)] == [2, 2]


@given(st.integers(1, 10**7), st.integers(1, 64))
def test_tokens_per_batch_are_bounded(longest, count):
    length = piece_length(longest, count)
    assert 1 <= length <= LONGEST_PIECE
    assert length * count <= TOKENS_PER_BATCH


def test_finished_texts_leave_the_batch():
    pending = [PendingText(text_of(*[10] * count), NameTable()) for count in (100, 1_000, 300)]
    steps = list(iterate_batches(pending))
    assert [texts for texts, _, _ in steps] == [[0, 1, 2], [1], [1]]
    assert [rows for _, rows, _ in steps] == [[0, 1, 2], [1], [0]]
    assert sum(int(documents.lengths.sum()) for _, _, documents in steps) == 14_000


def test_a_whole_text_is_one_piece():
    pending = [PendingText(text_of(*[10] * 1_000), NameTable())]
    assert [documents.ids.shape[1] for _, _, documents in iterate_batches(pending, whole=True)] == [10_000]
