"""A batch that was packed and unpacked is the batch that it was."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from attar.training.batches import Batch, ClozeBatches
from attar.training.data import open_splits
from attar.training.packing import ALIGNED, pack, unpack
from attar.training.words import vocabulary_of


@pytest.fixture
def batch(stories_set: Path) -> Batch:
    vocabulary = vocabulary_of([stories_set])
    split = open_splits([stories_set], "training", vocabulary)
    return next(iter(ClozeBatches(split, vocabulary, size=7, draw=3)))


def assert_same(one: Any, other: Any) -> None:
    for field in fields(one):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        if is_dataclass(mine):
            assert_same(mine, its)
        elif isinstance(mine, torch.Tensor):
            assert mine.dtype == its.dtype
            assert torch.equal(mine, its), field.name
        else:
            assert mine == its


def test_comes_out_as_it_went_in(batch):
    assert_same(unpack(pack(batch)), batch)


def test_goes_in_one_piece_that_processes_share(batch):
    packed = pack(batch)
    assert packed.bytes.is_shared()
    assert packed.bytes.dtype == torch.uint8
    found = unpack(packed)
    assert found.documents.ids.untyped_storage().data_ptr() == packed.bytes.untyped_storage().data_ptr()
    assert all(part.data_ptr() % ALIGNED == 0 for part in (found.questions.ids, found.counts, found.indices))
