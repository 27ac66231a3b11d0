"""A memory within a number of bytes: any text fits, what is left of it is right, and it can be extended."""

from itertools import pairwise

import numpy as np
import pytest

from attar.errors import OptionError
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.reader.reader import Reader
from attar.text.sentences import sentence_spans
from tests.reader.texts import ODD, SHORT, story
from tests.reader.texts import check_sound as check_phrases

pytestmark = pytest.mark.slow

TEXT = story(60, 4)


def size_of(memory: Memory) -> int:
    return len(memory.to_bytes())


def check_sound(memory: Memory, text: str) -> None:
    """Phrases are those of the text, and sentences that are left and follow each other are neighbours in it."""
    check_phrases(memory, text)
    index, spans = memory.phrases, list(sentence_spans(text))
    rows = list(zip(index.sentence_starts, index.sentence_starts + index.sentence_lengths, strict=True))
    for at, (one, other) in enumerate(pairwise(rows)):
        if index.known_sentences[at] and index.known_sentences[at + 1]:
            assert spans.index(other) == spans.index(one) + 1


def smallest(reader: Reader, text: str) -> int:
    with pytest.raises(
        OptionError, match=r"budget: expected at least [\d,]+ bytes, got 1; give more"
    ) as refused:
        reader.read(text, budget=1)
    assert "\n" not in str(refused.value)
    return int(str(refused.value).split("at least ")[1].split()[0].replace(",", ""))


@pytest.mark.parametrize(
    "text", [story(60), "x y " * 9_000, *ODD.values()], ids=["story", "one sentence", *ODD]
)
def test_any_text_fits(reader, text):
    for budget in (smallest(reader, text) if text else 400, 400, 1_000):
        memory = reader.read(text, budget=budget)
        assert size_of(memory) <= budget
        check_sound(memory, text)
    assert len(memory.phrases) >= min(3, len(reader.read(text).phrases))


def test_more_bytes_hold_more_phrases(reader):
    full = reader.read(TEXT)
    kept: set[tuple[int, int]] = set()
    for budget in np.linspace(smallest(reader, TEXT), size_of(full), 5).astype(int):
        memory = reader.read(TEXT, budget=int(budget))
        assert size_of(memory) <= budget
        check_sound(memory, TEXT)
        phrases = set(zip(memory.phrases.starts.tolist(), memory.phrases.lengths.tolist(), strict=True))
        assert kept <= phrases
        kept = phrases
    assert memory == full


def test_the_likeliest_phrases_are_kept_and_their_sentences(reader):
    full = reader.read(TEXT).phrases
    half = reader.read(TEXT, budget=2_000).phrases
    count = len(half)
    assert 10 < count < len(full)
    assert sorted(half.priors) == sorted(full.priors)[-count:]
    known = np.flatnonzero(half.known_sentences)
    assert known.tolist() == np.unique(half.sentences).tolist()
    for at in known:
        same = int(np.flatnonzero(full.sentence_starts == half.sentence_starts[at])[0])
        words = [
            each.words[each.word_starts[row] : each.word_starts[row + 1]].tolist()
            for each, row in ((half, at), (full, same))
        ]
        assert words[0] == words[1]


def test_a_memory_with_a_budget_can_be_extended(reader):
    whole = TEXT + JOINT + SHORT
    for budget in (smallest(reader, TEXT), 800, 1_500, 6_000):
        memory = reader.read(TEXT, budget=budget)
        check_sound(reader.extend(memory, SHORT), whole)
        limited = reader.extend(memory, SHORT, budget=budget)
        assert size_of(limited) <= budget
        check_sound(limited, whole)
        assert limited.tokens == reader.read(whole).tokens
