"""Memories of fixed size: additive sums, at most 16 kB, stored and asked like others."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attar.errors import OptionError
from attar.memory.budget import FIXED_SIZE
from attar.memory.forms import quantize
from attar.memory.memory import Memory
from attar.nn.phrases import PhraseNetwork
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from tests.reader.test_phrases import story

pytestmark = pytest.mark.slow

FIRST = "Ann met Bob in Bath. He wrote a letter to Lee."
SECOND = "Lee left the house in May. They ran to Bath."


@pytest.fixture(scope="module")
def saved(saved_phrases: SavedPhrases) -> SavedPhrases:
    torch.manual_seed(4)
    network = PhraseNetwork(replace(saved_phrases.network.options, values=6))
    own = saved_phrases.network.state_dict()
    network.load_state_dict(network.state_dict() | own)
    return replace(saved_phrases, network=network.eval())


@pytest.fixture(scope="module")
def reader(saved: SavedPhrases) -> FixedSizeReader:
    return FixedSizeReader(saved)


def close(one: Memory, other: Memory, levels: float) -> None:
    """Equal within so many levels of int8, of the row with the larger scale."""
    assert one.scales is not None
    assert other.scales is not None
    level = np.maximum(one.scales, other.scales)[:, None] / 127
    assert (np.abs(one.dequantized - other.dequantized) <= levels * level).all()


def test_the_sums_are_those_of_the_phrases(reader: FixedSizeReader, saved: SavedPhrases) -> None:
    phrases = PhraseReader(saved).read(FIRST)
    vectors = phrases.dequantized.astype(np.float64)
    keys = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    memory = reader.read(FIRST)
    assert (memory.form, memory.numbers.shape) == ("ridge", (8, 6 + 8))
    gram = keys.T @ keys
    np.testing.assert_allclose(memory.dequantized[:, 6:], gram, atol=0.02 * np.abs(gram).max())


def test_answers_are_phrases_of_the_text(reader: FixedSizeReader) -> None:
    answers = reader.answer(reader.read(FIRST), "Who wrote a letter?", text=FIRST)
    for answer in answers:
        assert answer.absent or FIRST[answer.start : answer.end] == answer.text
    assert sum(answer.probability for answer in answers) == pytest.approx(1, abs=0.01)


def test_memories_merge_and_subtract(reader: FixedSizeReader) -> None:
    first, second = reader.read(FIRST), reader.read(SECOND)
    both = first + second
    # Each of the three memories, and the difference, is rounded by half a level of its own.
    rest = both - second
    level = np.array([each.scales for each in (first, second, both, rest)]).sum(0)[:, None] / 127
    assert (np.abs(rest.dequantized - first.dequantized) <= 0.51 * level).all()
    np.testing.assert_array_equal(both.numbers, quantize(first.dequantized + second.dequantized)[0])
    assert len(both.phrases) == len(first.phrases) + len(second.phrases)
    text = FIRST + "\n\n" + SECOND
    answers = reader.answer(both, "Who left?", text=text)
    assert any(answer.start and answer.start > len(FIRST) for answer in answers)
    assert all(answer.absent or text[answer.start : answer.end] == answer.text for answer in answers)


def test_extending_equals_reading_at_once_but_for_rounding(reader: FixedSizeReader) -> None:
    parts = [FIRST, SECOND, story(30, 1), story(30, 2)]
    memory = reader.read(parts[0])
    for at, part in enumerate(parts[1:], 2):
        extended, whole = reader.extend(memory, part), reader.read("\n\n".join(parts[:at]))
        assert extended.phrases == whole.phrases
        assert extended.tokens == whole.tokens
        # Half a level each: the memory before, the extended one, and the one that is read at once.
        close(extended, whole, 1.51)
        memory = whole


def test_a_document_may_come_in_many_parts(reader: FixedSizeReader) -> None:
    parts = [story(2, at) for at in range(20)]
    memory = reader.read(parts[0])
    for part in parts[1:]:
        memory = reader.extend(memory, part)
    whole = reader.read("\n\n".join(parts))
    assert memory.phrases == whole.phrases
    close(memory, whole, 3)


def test_a_record_keeps_all_of_it(reader: FixedSizeReader) -> None:
    memory = reader.read(FIRST)
    assert Memory.from_bytes(memory.to_bytes()) == memory


def test_a_long_text_takes_no_more(reader: FixedSizeReader) -> None:
    first, second = reader.read(story(900, 3)), reader.read(story(900, 4))
    for memory in (first, second, first + second, reader.extend(first, story(900, 4))):
        assert memory.nbytes < len(memory.to_bytes()) <= FIXED_SIZE
        assert len(memory.phrases) > 200
    assert len(reader.read(FIRST, budget=800).to_bytes()) <= 800


def test_readers_refuse_the_memories_of_the_other_form(reader: FixedSizeReader, saved: SavedPhrases) -> None:
    phrases = PhraseReader(saved)
    with pytest.raises(OptionError, match="form ridge"):
        reader.answer(phrases.read(FIRST), "Who?")
    with pytest.raises(OptionError, match="form phrases"):
        phrases.extend(reader.read(FIRST), SECOND)


def test_a_reader_without_such_weights_is_refused(saved_phrases: SavedPhrases) -> None:
    with pytest.raises(OptionError, match="--values"):
        FixedSizeReader(saved_phrases)


def test_the_weights_are_kept_in_the_folder(saved: SavedPhrases, reader: FixedSizeReader, tmp_path) -> None:
    save_phrase_reader(tmp_path, saved.network, saved.quick, saved.tokenizer.data)
    loaded = Reader.load(tmp_path)
    assert isinstance(loaded, PhraseReader)
    close(FixedSizeReader(loaded.saved).read(FIRST), reader.read(FIRST), 13)
