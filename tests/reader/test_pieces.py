"""Word pieces with their places."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.reader.windows import PieceTokenizer
from benchmarks.tiny_reader import tiny_tokenizer

PIECES = PieceTokenizer(tiny_tokenizer())


class TestPieces:
    def test_pieces_have_the_places_of_their_characters(self):
        text = "Ann  ab. Ünë"
        ((ids, places),) = PIECES.read_sentences([text])
        found = [text[start:end] for start, end in places.tolist()]
        assert found == ["Ann", "a", "b", ".", "Ü", "n", "ë"]
        assert PIECES.continuing[ids].tolist() == [False, False, True, False, False, True, True]

    @given(st.text())
    def test_any_text_has_places_inside_it(self, text):
        ((ids, places),) = PIECES.read_sentences([text])
        assert len(ids) == len(places)
        assert all(0 <= start < end <= len(text) for start, end in places.tolist())

    def test_half_a_surrogate_pair_is_read_without_moving_other_places(self):
        for text in ("\ud800ann\udfff b", "\ud83d\ud83d ann"):
            ((_, places),) = PIECES.read_sentences([text])
            assert "ann" in [text[start:end] for start, end in places.tolist()]
        assert len(PIECES.read_questions(["\ud800 ann"])[0]) >= 1

    def test_another_file_or_vocabulary_is_refused(self):
        with pytest.raises(FormatError, match="expected a tokenizer of the tokenizers library"):
            PieceTokenizer(b"{}")
        with pytest.raises(FormatError, match=r"^[^\n]+$"):
            PieceTokenizer(PIECES.data.replace(b'"truncation":null', b'"truncation":["\\n"]'))
        with pytest.raises(FormatError, match=r"expected a vocabulary with \[CLS\], got one without"):
            PieceTokenizer(PIECES.data.replace(b"[CLS]", b"[ABC]"))

    @pytest.mark.parametrize(
        ("part", "forged"),
        [
            ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100_000}),
            ("normalizer", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
            (
                "pre_tokenizer",
                {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
            ),
            ("model", json.loads(PIECES.data)["model"] | {"max_input_chars_per_word": 10**9}),
        ],
        ids=["swells", "pattern", "split", "long words"],
    )
    def test_one_that_a_stranger_made_to_take_for_ever_is_refused(self, part, forged):
        data = json.dumps(json.loads(PIECES.data) | {part: forged}).encode()
        with pytest.raises(FormatError, match="WordPiece as BERT has it"):
            PieceTokenizer(data)


def test_what_a_file_says_of_special_tokens_is_not_used():
    """A template that names a token without saying its id would end the process."""
    saved = json.loads(PIECES.data)
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    saved["post_processor"] = {"type": "TemplateProcessing", "single": template, "pair": template}
    saved["post_processor"]["special_tokens"] = {}
    (ids,) = PieceTokenizer(json.dumps(saved).encode()).read_questions(["ann"])
    assert ids.tolist() == [2, PIECES.read_questions(["ann"])[0][1], 3]


class TestLongSentences:
    @pytest.mark.parametrize("part", ["ann ab. ", "a", ".", "ann\n", "é. "], ids=repr)
    def test_are_read_in_parts_with_the_places_of_the_whole(self, part):
        sentence = part * (50_000 // len(part))
        (ids, places), (short, _) = PIECES.read_sentences([sentence, "ann"])
        if part == "a":  # a word that is longer than any part has no pieces
            assert set(ids.tolist()) == {1}
        else:
            assert ids.tolist() == PIECES.read_questions([sentence])[0][1:-1].tolist()
            (again, same), step = PIECES.read_sentences([part])[0], len(part)
            assert ids.tolist() == again.tolist() * (len(sentence) // step)
            whole = [at * step + same for at in range(len(sentence) // step)]
            assert places.tolist() == np.concatenate(whole).tolist()
        assert short.tolist() == PIECES.read_questions(["ann"])[0][1:-1].tolist()
