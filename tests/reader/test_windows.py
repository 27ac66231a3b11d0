"""A text is cut into windows of whole sentences, and no piece of it is lost."""

from itertools import pairwise

import numpy as np
import pytest

from attar.reader.windows import WINDOW, WindowedText
from attar.text.sentences import sentence_spans
from tests.reader.texts import ODD, story


@pytest.mark.parametrize("text", [story(60), "word " * 5_000, *ODD.values()], ids=["story", "long", *ODD])
def test_windows_are_whole_sentences_of_at_most_318_pieces(parts, text):
    windows, spans = WindowedText.of(text, parts.tokenizer).windows, list(sentence_spans(text))
    assert all(0 < len(window.ids) <= WINDOW for window in windows)
    for before, after in pairwise(windows):
        if before.sentences[-1] == after.sentences[0]:  # a sentence that is longer than a window
            sentence = text[slice(*spans[after.sentences[0]])]
            (ids, _), *_ = parts.tokenizer.read_sentences([sentence])
            assert len(ids) > WINDOW


def test_no_piece_is_lost(parts):
    text = story(60) + "x y " * 2_000
    windows = WindowedText.of(text, parts.tokenizer).windows
    ((ids, places),) = parts.tokenizer.read_sentences([text])
    assert np.concatenate([window.ids for window in windows]).tolist() == ids.tolist()
    assert np.concatenate([window.places for window in windows]).tolist() == places.tolist()
