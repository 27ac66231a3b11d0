"""A memory within a number of bytes: any text fits, what is left of it is right, and it can be extended."""

from itertools import pairwise

import numpy as np
import pytest

from attar.errors import OptionError
from attar.memory.budget import FIXED_SIZE
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from attar.text.sentences import sentence_spans
from tests.reader.test_phrases import ODD, SHORT, article, story

pytestmark = pytest.mark.slow

TEXT = story(60, 4)


def size_of(memory: Memory) -> int:
    return len(memory.to_bytes())


def check_sound(memory: Memory, text: str) -> None:
    """Phrases, quotes and neighbours are those of the text; the memory can be written and read."""
    index, spans = memory.phrases, list(sentence_spans(text))
    assert index.characters == len(text)
    for at in range(len(index)):
        start, end = int(index.starts[at]), int(index.starts[at]) + int(index.lengths[at])
        assert index.text_of(at) == text[start:end]
        first, last = index.sentence_of(at)
        assert (first, last) in spans
        assert first <= start <= end <= last
    rows = list(zip(index.sentence_starts, index.sentence_starts + index.sentence_lengths, strict=True))
    for at, (one, other) in enumerate(pairwise(rows)):
        if index.known_sentences[at] and index.known_sentences[at + 1]:
            assert spans.index(other) == spans.index(one) + 1
    assert text.endswith(index.tail)
    assert Memory.from_bytes(memory.to_bytes()) == memory


def smallest(reader: PhraseReader, text: str) -> int:
    with pytest.raises(
        OptionError, match=r"budget: expected at least [\d,]+ bytes, got 1; give more"
    ) as refused:
        reader.read(text, budget=1)
    assert "\n" not in str(refused.value)
    return int(str(refused.value).split("at least ")[1].split()[0].replace(",", ""))


@pytest.mark.parametrize(
    "text", [story(60), "x y " * 9_000, *ODD.values()], ids=["story", "one sentence", *ODD]
)
def test_any_text_fits(phrase_reader, text):
    for budget in (smallest(phrase_reader, text) if text else 400, 400, 1_000):
        memory = phrase_reader.read(text, budget=budget)
        assert memory.nbytes < size_of(memory) <= budget
        check_sound(memory, text)
    assert len(memory.phrases) >= min(3, len(phrase_reader.read(text).phrases))


def test_only_a_budget_without_room_for_a_record_is_refused(phrase_reader):
    least = smallest(phrase_reader, story(900))
    assert least < 300
    assert size_of(phrase_reader.read(story(900), budget=least)) <= least


def test_more_bytes_hold_more_phrases(phrase_reader):
    full = phrase_reader.read(TEXT)
    kept: set[tuple[int, int]] = set()
    for budget in np.linspace(smallest(phrase_reader, TEXT), size_of(full), 5).astype(int):
        memory = phrase_reader.read(TEXT, budget=int(budget))
        assert size_of(memory) <= budget
        check_sound(memory, TEXT)
        phrases = set(zip(memory.phrases.starts.tolist(), memory.phrases.lengths.tolist(), strict=True))
        assert kept <= phrases
        kept = phrases
    assert memory == full


def test_the_likeliest_phrases_are_kept_and_their_sentences(phrase_reader):
    full = phrase_reader.read(TEXT).phrases
    half = phrase_reader.read(TEXT, budget=2_000).phrases
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


def test_sentences_count_for_their_neighbours_only(phrase_reader):
    (query,) = phrase_reader._questions(["who wrote a letter to the house?"])
    full, cut = phrase_reader.read(TEXT).phrases, phrase_reader.read(TEXT, budget=2_000).phrases
    neighbours = np.array([0.5, 0.25], np.float32)
    alone = query.overlap(full, np.zeros(2, np.float32))
    known = dict(zip(cut.sentence_starts[cut.known_sentences].tolist(), alone, strict=False))
    known = {
        start: own for start, own in zip(full.sentence_starts.tolist(), alone, strict=True) if start in known
    }
    starts = [None, *full.sentence_starts.tolist(), None]
    assert 0 < len(known) < len(alone)
    for start, found in zip(cut.sentence_starts.tolist(), query.overlap(cut, neighbours), strict=True):
        if start in known:
            at = starts.index(start)
            before, after = (known.get(starts[each], 0.0) for each in (at - 1, at + 1))
            assert found == pytest.approx(known[start] + 0.5 * before + 0.25 * after, rel=1e-5)


def test_only_known_sentences_are_quoted_and_explained(phrase_reader, monkeypatch):
    memory = phrase_reader.read(TEXT, budget=600)
    count = int(memory.phrases.known_sentences.sum())
    best = phrase_reader.best_sentences(memory, "who wrote a letter?", 50)
    assert len(best) == count
    assert set(best) <= set(sentence_spans(TEXT))
    monkeypatch.setattr(phrase_reader, "read", lambda text: memory)
    explanation = phrase_reader.explain(TEXT, "who wrote a letter?")
    assert explanation.tokens == TEXT.split()
    assert len(explanation.weights) == len(explanation.tokens)


def test_a_memory_with_a_budget_can_be_extended(phrase_reader):
    whole = TEXT + JOINT + SHORT
    for budget in (smallest(phrase_reader, TEXT), 800, 1_500, 6_000):
        memory = phrase_reader.read(TEXT, budget=budget)
        check_sound(phrase_reader.extend(memory, SHORT), whole)
        limited = phrase_reader.extend(memory, SHORT, budget=budget)
        assert size_of(limited) <= budget
        check_sound(limited, whole)
        assert limited.tokens == phrase_reader.read(whole).tokens


def test_the_last_window_is_kept_where_it_takes_little(phrase_reader):
    small = phrase_reader.read(TEXT, budget=600).phrases
    assert (small.tail, small.tail_phrases) == ("", len(small))
    large = phrase_reader.read(story(400), budget=12_000).phrases
    assert large.tail == phrase_reader.read(story(400)).phrases.tail
    assert 0 < large.tail_phrases < len(large)


def test_the_default_reader_answers_within_a_budget():
    reader, text = Reader.load(), article(9)
    memory = reader.read(text, budget=4_000)
    assert size_of(memory) <= 4_000
    check_sound(memory, text)
    quotes = [each.quote for each in reader.answer(memory, "What was tried?", text=text) if not each.absent]
    assert set(quotes) <= {text[start:end] for start, end in sentence_spans(text)}


def test_fixed_stays_fixed():
    reader, text = Reader.load("fixed"), article(20)
    memory = reader.read(text)
    assert memory.nbytes < size_of(memory) <= FIXED_SIZE
    assert len(memory.phrases) > 100
    check_sound(memory, text)
    both = memory + reader.read(text[:5_000])
    assert size_of(both) <= FIXED_SIZE
    check_sound(both, text + JOINT + text[:5_000])
    extended = reader.extend(memory, SHORT)
    assert size_of(extended) <= FIXED_SIZE
    check_sound(extended, text + JOINT + SHORT)
