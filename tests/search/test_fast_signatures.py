"""Signatures made on a device are those of the plain path."""

import numpy as np
import pytest
import torch

from attar.progress import ignore_progress
from attar.reader.fast_reading import FastReading
from attar.reader.reader import Reader
from attar.search.fast_index import FastCollector, roots_of
from attar.search.signatures import Collector, root_of, triangle_of
from attar.search.statistics import default_statistics
from tests.reader.texts import everyday


@pytest.mark.gpu
@pytest.mark.slow
def test_sums_and_signatures_are_those_of_the_plain_path(device):
    """Bits may differ where a number is nearly 0: on a CPU few of 8,256, in bfloat16 more."""
    reader, plain = Reader.load().to(device), Reader.load()
    projection = default_statistics(reader.fingerprint, reader.folder).projection(128)
    texts = ["Ann left.", everyday(300), everyday(900, 4_000), everyday(6_000)]
    slow, fast = Collector(projection), FastCollector(projection, torch.device(device))
    plain.read_many(texts, on_states=slow)
    reading = FastReading(reader._texts, reader.tokenizer, reader.options.size, reader.fingerprint)
    reading.read(texts, ignore_progress, fast.add_batch)
    fast.finish()
    tolerance, bits = (1e-5, 10) if device == "cpu" else (5e-2, 400)
    for at in range(len(texts)):
        ours, theirs = fast.of(at), slow.of(at)
        assert (ours.tokens, ours.pieces.tolist()) == (theirs.tokens, theirs.pieces.tolist())
        assert ours.counts.tolist() == theirs.counts.tolist()
        scale = float(np.abs(theirs.triangle).max())
        assert np.abs(ours.triangle - theirs.triangle).max() < tolerance * scale
        assert ((ours.signature() > 0) != (theirs.signature() > 0)).sum() <= bits
        assert (ours + theirs).root is None  # it is that of other sums


@pytest.mark.parametrize("tokens", [1, 3, 40, 300])
def test_roots_are_those_of_one_at_a_time(tokens):
    points = np.random.default_rng(tokens).normal(size=(tokens, 32)) * np.geomspace(1, 0.1, 32)
    triangle = (points.T @ points)[triangle_of(32)].astype(np.float32)
    both = roots_of(torch.from_numpy(np.stack([triangle, np.float32(2**30) * triangle])))
    assert both[0] == pytest.approx(root_of(triangle), abs=1e-3)
    assert both[1] == pytest.approx(both[0], abs=1e-6)
