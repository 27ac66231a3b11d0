"""Memories of fixed size: additive sums, at most 16 kB, asked like others."""

import numpy as np
import pytest

from attar.errors import OptionError
from attar.library.library import Library
from attar.memory.algebra import FIXED_SIZE
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from benchmarks.tiny_reader import tiny_parts
from tests.reader.texts import story

pytestmark = pytest.mark.slow

FIRST = "Ann met Bob in Bath. He wrote a letter to Lee."
SECOND = "Lee left the house in May. They ran to Bath."


@pytest.fixture(scope="module")
def parts() -> ReaderParts:
    return tiny_parts(values=6)


@pytest.fixture(scope="module")
def reader(parts) -> FixedSizeReader:
    return FixedSizeReader(parts)


def check_close(one: Memory, other: Memory, levels: float) -> None:
    """Equal within this many levels of int8, of the row with the larger scale."""
    level = np.maximum(one.scales, other.scales)[:, None] / 127
    assert (np.abs(one.dequantized - other.dequantized) <= levels * level).all()


def test_the_sums_are_those_of_the_phrases(reader, parts):
    vectors = Reader(parts).read(FIRST).dequantized.astype(np.float64)
    keys = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    memory = reader.read(FIRST)
    assert (memory.form, memory.numbers.shape) == ("ridge", (8, 6 + 8))
    gram = keys.T @ keys
    np.testing.assert_allclose(memory.dequantized[:, 6:], gram, atol=0.02 * np.abs(gram).max())


def test_memories_merge_and_subtract(reader):
    first, second = reader.read(FIRST), reader.read(SECOND)
    both = first + second
    # Each of the three memories, and the difference, is rounded by half a level of its own.
    rest = both - second
    level = np.array([memory.scales for memory in (first, second, both, rest)]).sum(0)[:, None] / 127
    assert (np.abs(rest.dequantized - first.dequantized) <= 0.51 * level).all()
    assert len(both.phrases) == len(first.phrases) + len(second.phrases)
    text = FIRST + JOINT + SECOND
    answers = reader.answer(both, "Who left?", text=text)
    assert any(answer.start and answer.start > len(FIRST) for answer in answers)
    assert all(answer.absent or text[answer.start : answer.end] == answer.text for answer in answers)


def test_extending_equals_reading_at_once_but_for_rounding(reader):
    texts = [FIRST, SECOND, story(30, 1), story(30, 2)]
    memory = reader.read(texts[0])
    for at, text in enumerate(texts[1:], 2):
        extended, whole = reader.extend(memory, text), reader.read(JOINT.join(texts[:at]))
        assert extended.phrases == whole.phrases
        assert extended.tokens == whole.tokens
        # Half a level each: the memory before, the extended one, and the one that is read at once.
        check_close(extended, whole, 1.51)
        memory = whole


def test_a_long_text_takes_no_more(reader):
    first, second = reader.read(story(900, 3)), reader.read(story(900, 4))
    for memory in (first, second, first + second, reader.extend(first, story(900, 4))):
        assert Memory.from_bytes(memory.to_bytes()) == memory
        assert len(memory.to_bytes()) <= FIXED_SIZE
        assert len(memory.phrases) > 200
    assert len(reader.read(FIRST, budget=800).to_bytes()) <= 800


def test_readers_refuse_the_memories_of_the_other_form(reader, parts):
    phrases = Reader(parts)
    with pytest.raises(OptionError, match="form ridge"):
        reader.answer(phrases.read(FIRST), "Who?")
    with pytest.raises(OptionError, match="form phrases"):
        phrases.extend(reader.read(FIRST), SECOND)


def test_a_reader_without_such_weights_is_refused():
    with pytest.raises(OptionError, match="no memories of fixed size; use `fixed`"):
        FixedSizeReader(tiny_parts())


LETTER = "Ann moved to Leeds in May. Bob stayed in Bath. The piano costs 200 pounds a year."


def test_a_library_of_the_shipped_one_answers_searches_appends_and_removes(tmp_path):
    with Library(tmp_path / "library", "fixed") as library:
        library.add("letter", LETTER)
        library.add("note", "The mill was sold to Dora. Emil wrote about it in June.")
    with Library(tmp_path / "library") as library:  # found by its fingerprint
        (answer, *_) = library.ask("letter", "Where did Ann move?")
        assert (answer.text, answer.quote) == ("Leeds", "Ann moved to Leeds in May.")
        (answer, *_) = library.ask_all("Who was the mill sold to?")
        assert (answer.document, answer.text) == ("note", "Dora")
        assert library.search("piano")[0].document == "letter"
        library.append("letter", "Clara bought the red boat.")
        assert library.ask("letter", "Who bought the red boat?")[0].text == "Clara"
        library.remove("note")
        assert "note" not in [hit.document for hit in library.search("mill")]
