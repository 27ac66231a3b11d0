"""A reader with fewer word pieces answers as before where the pieces that were left out do not occur."""

from dataclasses import replace

import numpy as np

from attar.reader.phrase_config import POSITIONS
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from benchmarks.prune_reader import prune
from tests.reader.conftest import (  # noqa: F401  # fixtures
    make_tokenizer,
    piece_tokenizer,
    saved_phrases,
)

TEXT, QUESTION = "Ann met Bob in Bath. He wrote a letter to Lee.", "Who met Bob?"


def test_a_pruned_reader_reads_and_answers_as_before(saved_phrases, tmp_path):  # noqa: F811
    PhraseReader(replace(saved_phrases, distinct=True)).save(tmp_path / "whole")
    before = Reader.load(tmp_path / "whole")
    count = len(before.tokenizer)
    assert prune(tmp_path / "whole", [TEXT, QUESTION], count - 10, tmp_path / "less") == count - 10
    after = Reader.load(tmp_path / "less")
    assert isinstance(after, PhraseReader)
    assert len(after.tokenizer) == count - 10
    assert (after.options.encoder.positions, after.saved.distinct) == (POSITIONS, True)
    one, other = before.read(TEXT), after.read(TEXT)
    np.testing.assert_array_equal(one.to_float32(), other.to_float32())
    assert before.answer(one, QUESTION) == after.answer(other, QUESTION)
    # A word that was left out is read letter by letter.
    assert len(after.tokenizer.read(["house"])[0]) > len(before.tokenizer.read(["house"])[0])
