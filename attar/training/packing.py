"""A batch on its way from the process that made it: one piece of shared memory instead of fourteen.

Each tensor that is handed from process to process has a file and a handshake of its own, and the training process
waits for every one of them (decisions.md).
"""

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from attar.nn import Documents, Questions
from attar.training.batches import Batch

# Every part begins at a multiple of so many bytes, so that it can be seen as numbers of any type.
ALIGNED = 16


@dataclass(frozen=True)
class PackedBatch:
    """The bytes of a batch's tensors, the type and shape of each, and the two numbers beside them."""

    bytes: Tensor
    parts: tuple[tuple[torch.dtype, tuple[int, ...]], ...]
    most: int
    share: float

    def pin_memory(self) -> "PackedBatch":
        """The same in memory that a GPU fetches from by itself; torch's loader calls this in a thread of its own.

        A copy out of any other memory first waits until the GPU has done all that it was given.
        """
        return replace(self, bytes=self.bytes.pin_memory())


def pack(batch: Batch) -> PackedBatch:
    """Put a batch's tensors one behind the other, into memory that processes share."""
    documents, questions = batch.documents, batch.questions
    tensors = [
        *(documents.ids, documents.lengths, documents.sentence_ends, documents.names, documents.candidates),
        *(questions.ids, questions.lengths, questions.blanks, questions.documents, questions.places),
        *(questions.asked, batch.answers, batch.counts, batch.indices),
    ]
    parts = tuple((tensor.dtype, tuple(tensor.shape)) for tensor in tensors)
    whole = torch.empty(sum(room(part) for part in parts), dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
    for tensor, place in zip(tensors, places(whole, parts), strict=True):
        place.copy_(tensor)
    return PackedBatch(whole, parts, questions.most, batch.share)


def unpack(packed: PackedBatch) -> Batch:
    """Take the batch up where it lies."""
    found = places(packed.bytes, packed.parts)
    documents, (answers, counts, indices) = Documents(*found[:5]), found[11:]
    ids, lengths, blanks, about, turns, asked = found[5:11]
    questions = Questions(ids, lengths, blanks, about, turns, packed.most, asked)
    return Batch(documents, questions, answers, counts, indices, packed.share)


def room(part: tuple[torch.dtype, tuple[int, ...]]) -> int:
    """The bytes that a part takes.

    >>> room((torch.int32, (3, 2))), room((torch.bool, (1,)))
    (32, 16)
    """
    dtype, shape = part
    return -(-dtype.itemsize * prod(shape) // ALIGNED) * ALIGNED


def places(whole: Tensor, parts: tuple[tuple[torch.dtype, tuple[int, ...]], ...]) -> list[Tensor]:
    """Where each part lies in the bytes, seen as what it is."""
    found, start = [], 0
    for dtype, shape in parts:
        own = whole[start : start + dtype.itemsize * prod(shape)]
        found.append(own.view(dtype).view(shape))
        start += room((dtype, shape))
    return found
