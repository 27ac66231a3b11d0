"""Texts read by several processes have the memories of `Reader.read_many`."""

import signal

import numpy as np
import pytest
import torch

from attar.errors import AttarError
from attar.memory.memory import Memory
from attar.progress import StoppedError, ignore_progress, stopped_by
from attar.reader.fast_reading import FastReading
from attar.reader.reader import Reader
from tests.reader.texts import ODD, SHORT, everyday, story

TEXTS = [SHORT, story(60), *ODD.values(), *(story(count, seed=count) for count in range(1, 40)), story(400)]


@pytest.fixture(scope="module")
def fast(reader) -> FastReading:
    return FastReading(reader._texts, reader.tokenizer, reader.options.size, reader.fingerprint)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("attar.reader.fast_reading._CHARACTERS", 2_000)


def test_memories_are_those_of_the_plain_path_in_order(reader, fast, small_chunks):
    told = []
    memories = fast.read(TEXTS, lambda *step: told.append(step), None)
    assert memories == reader.read_many(TEXTS)
    assert told[-1][0] == "reading"
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_windows_that_are_encoded_together_have_the_same_phrases(reader, monkeypatch):
    """Padded to the longest they are rounded in another way, by a unit of int8 at most."""
    alone = reader.read_many(TEXTS)
    batches = type(reader._texts).batches
    monkeypatch.setattr(type(reader._texts), "batches", lambda self, windows: batches(self, windows, 4_096))
    for ours, theirs in zip(reader.read_many(TEXTS), alone, strict=True):
        assert ours.phrases.covered == theirs.phrases.covered
        assert ours.phrases.starts.tolist() == theirs.phrases.starts.tolist()
        assert ours.phrases.priors == pytest.approx(theirs.phrases.priors, abs=2e-3)
        assert np.abs(ours.numbers.astype(int) - theirs.numbers).max(initial=0) <= 1


def number_by_place(memory: Memory) -> dict[tuple[int, int], int]:
    """The number of each phrase, by its start and length."""
    index = memory.phrases
    places = zip(index.starts.tolist(), index.lengths.tolist(), strict=True)
    return {place: number for number, place in enumerate(places)}


@pytest.mark.gpu
@pytest.mark.slow
def test_a_device_finds_the_phrases_of_the_plain_path(default, device):
    """In bfloat16 the likeliest phrases are the same but for those at the threshold."""
    texts = [everyday(1_500, 1_500 * at) for at in range(12)]
    plain = default.read_many(texts)
    on_device = Reader.load().to(device)
    fast = FastReading(on_device._texts, default.tokenizer, default.options.size, default.fingerprint)
    shared = total = 0
    for ours, theirs in zip(fast.read(texts, ignore_progress, None), plain, strict=True):
        assert ours.tokens == theirs.tokens
        mine, yours = number_by_place(ours), number_by_place(theirs)
        both = sorted(mine.keys() & yours.keys())
        shared, total = shared + len(both), total + len(yours)
        one, other = (
            torch.from_numpy(memory.dequantized[[numbers[place] for place in both]])
            for memory, numbers in ((ours, mine), (theirs, yours))
        )
        assert torch.cosine_similarity(one, other).min() > 0.97
    assert shared >= 0.95 * total


def test_it_stops_when_told_to(reader, small_chunks):
    fast = FastReading(reader._texts, reader.tokenizer, reader.options.size, reader.fingerprint)
    with stopped_by(lambda: True), pytest.raises(StoppedError):
        fast.read(TEXTS, ignore_progress, None)


def test_a_process_that_ends_is_one_line(reader):
    fast = FastReading(reader._texts, reader.tokenizer, reader.options.size, reader.fingerprint)
    for worker in fast._workers:
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
    with pytest.raises(AttarError, match="a process has ended that worked for this one; try again with less"):
        fast.read([SHORT], ignore_progress, None)
