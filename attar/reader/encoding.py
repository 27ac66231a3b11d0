"""Texts and questions through the network: texts become memories, questions become queries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.errors import OptionError
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import Floats, states_are_smaller
from attar.memory.memory import Memory
from attar.nn.mechanisms.base import Memories
from attar.nn.mechanisms.linear import ForgettingAttention, GatedAttention
from attar.nn.network import Documents, Network
from attar.nn.network_options import NetworkOptions
from attar.ops.reference import gated
from attar.progress import Progress, ignore_progress
from attar.reader.batches import PendingText, iterate_batches

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class QuestionBatch:
    """Token ids `[Q, l]`, padded with 0, the length of each question `[Q]` and the place of its blank `[Q]`."""

    ids: Ids
    lengths: NDArray[np.int64]
    blanks: NDArray[np.int64]

    @classmethod
    def of(cls, questions: Sequence[tuple[Ids, int]]) -> "QuestionBatch":
        """A batch of results of `TextReader.question`.

        >>> two = (np.array([7, 2], np.int32), 1), (np.array([2, 8, 9], np.int32), 0)
        >>> QuestionBatch.of(two).ids.tolist()
        [[7, 2, 0], [2, 8, 9]]
        """
        lengths = np.array([len(ids) for ids, _ in questions])
        padded = np.zeros((len(questions), int(lengths.max(initial=0))), np.int32)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate([ids for ids, _ in questions])
        return cls(padded, lengths, np.array([blank for _, blank in questions]))

    def to(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The arguments of `Network.ask`; lengths stay on the CPU, where they are used."""
        blanks = torch.from_numpy(self.blanks).to(device)
        return torch.from_numpy(self.ids).to(device), torch.from_numpy(self.lengths), blanks

    def mentions(self, first_entity: int, names: int) -> NDArray[np.bool_]:
        """Which of the first `names` names each question mentions: `[Q, names]`."""
        entity = self.ids - first_entity
        row, place = np.nonzero((entity >= 0) & (entity < names))
        mentioned = np.zeros((len(self.ids), names), np.bool_)
        mentioned[row, entity[row, place]] = True
        return mentioned


class TextEncoder:
    """Encodes texts and questions with a network. `attar.reader.fast_encoding` does the same faster on a CPU."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.network.embedding.weight.device

    @property
    def extends(self) -> bool:
        """Whether a text can be cut at a sentence end and continued: no state depends on later sentences."""
        return self.network.document_encoder.extends

    def hidden_states(self, documents: Documents, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The hidden states `[B, n, k]`, and the encoder states `[B, s]` to extend from; `state` are earlier ones."""
        embedded, ends = self.network.embedding(documents.ids), documents.sentence_ends
        hidden, state = self.network.document_encoder(
            embedded, documents.lengths, sentence_ends=ends, state=state
        )
        return hidden, state

    def queries(self, questions: QuestionBatch) -> Tensor:
        """The queries `[Q, k]`."""
        return self.network.ask(*questions.to(self.device))


def token_vectors(network: Network, hidden: Tensor) -> Tensor:
    """The vector f that the mechanism writes per token `[B, n, k]`: gated hidden states, or the states themselves."""
    mechanism = network.mechanism
    if isinstance(mechanism, GatedAttention | ForgettingAttention):
        return gated(hidden, mechanism.gate.weight, mechanism.gate.bias)
    return hidden


def write_memories(
    encoder: TextEncoder, pending: Sequence[PendingText], reader: str, progress: Progress = ignore_progress
) -> list[Memory]:
    """The memory of each text, in order. A text that extends a memory must be the only one."""
    options, written = encoder.network.options, dict[int, Memory]()
    keep = [_keeps_tokens(options, each) for each in pending]
    for keeps_tokens, write in ((True, _write_tokens), (False, _write_sums)):
        chosen = [at for at, each in enumerate(keep) if each is keeps_tokens]
        if chosen:
            memories = write(encoder, [pending[at] for at in chosen], reader, progress)
            written.update(zip(chosen, memories, strict=True))
    return [written[at] for at in range(len(pending))]


def _keeps_tokens(options: NetworkOptions, pending: PendingText) -> bool:
    """Whether the memory holds one vector per token instead of their sum: always for softmax, or if smaller."""
    if options.mechanism not in ("linear", "gated"):
        return options.mechanism == "softmax"
    before = pending.memory
    if before is not None and before.form != "states":
        return False
    earlier = 0 if before is None else len(before.numbers)
    return states_are_smaller(earlier + len(pending.text), options.hidden_size)


def _write_sums(
    encoder: TextEncoder, pending: Sequence[PendingText], reader: str, progress: Progress
) -> list[Memory]:
    """Memories whose size does not depend on the number of tokens."""
    state, memories = _state_before(encoder, pending), None
    if (before := pending[0].memory) is not None:
        array = torch.from_numpy(before.array())[None]
        memories = Memories(array, torch.tensor([before.tokens])).to(encoder.device)
    ended: dict[int, tuple[Tensor, Tensor]] = {}
    for texts, rows, batch in iterate_batches(pending, whole=not encoder.extends, progress=progress):
        if memories is not None:
            memories = Memories(memories.state[rows], memories.tokens[rows])
        documents = batch.to(encoder.device)
        hidden, state = encoder.hidden_states(documents, None if state is None else state[rows])
        memories = encoder.network.write(hidden, None, documents, memories)
        ended.update((text, (memories.state[row], state[row])) for row, text in enumerate(texts))
    mechanism = encoder.network.options.mechanism
    cooccurrences = _count_cooccurrences(encoder.network, pending)
    written = []
    for at, each in enumerate(pending):
        numbers, last = (tensor.cpu().numpy() for tensor in ended[at])
        tokens = len(each.text) + (each.memory.tokens if each.memory else 0)
        memory = Memory.of(mechanism, numbers, tokens=tokens, reader=reader, state=last)
        # Set after `Memory.of`, which would copy the table.
        changes: dict[str, Any] = {"names": each.names}
        if memory.form == "names":
            changes["numbers"] = np.array(numbers[: len(each.names)], np.float32)
            changes["cooccurrence"] = cooccurrences[at]
        written.append(replace(memory, **changes))
    return written


def _count_cooccurrences(network: Network, pending: Sequence[PendingText]) -> list[Cooccurrence | None]:
    """The co-occurrence counts of each text, added to those of the memory that it extends; None if not needed."""
    if network.cooccurrence is None:
        return [None] * len(pending)
    counts = [len(each.names) for each in pending]
    new = Cooccurrence.count(
        np.concatenate([each.text.names for each in pending]),
        np.concatenate([each.text.ids for each in pending]),
        np.concatenate([each.text.sentence_ends for each in pending]),
        [len(each.text) for each in pending],
        counts=counts,
        first=network.options.first_entity,
        limit=network.options.entities,
        common=network.cooccurrence.first_word,
    )
    before = [None if each.memory is None else each.memory.cooccurrence for each in pending]
    return [
        own if old is None else old.add(own, range(count), count)
        for old, own, count in zip(before, new, counts, strict=True)
    ]


def _write_tokens(
    encoder: TextEncoder, pending: Sequence[PendingText], reader: str, progress: Progress
) -> list[Memory]:
    """Memories of one vector per token: few states, or those of softmax."""
    state = _state_before(encoder, pending)
    vectors: list[list[Floats]] = [[each.memory.to_float32()] if each.memory else [] for each in pending]
    ended: dict[int, Floats] = {}
    for texts, rows, batch in iterate_batches(pending, whole=not encoder.extends, progress=progress):
        earlier = None if state is None else state[rows]
        hidden, state = encoder.hidden_states(batch.to(encoder.device), earlier)
        batch_vectors = token_vectors(encoder.network, hidden).cpu().numpy()
        states = state.cpu().numpy()
        for row, text in enumerate(texts):
            vectors[text].append(batch_vectors[row, : int(batch.lengths[row])])
            ended[text] = states[row]
    mechanism = encoder.network.options.mechanism
    written = []
    for at, each in enumerate(pending):
        F, last = np.concatenate(vectors[at]), ended[at]
        if mechanism == "softmax":
            memory = Memory.of(mechanism, F, tokens=len(F), reader=reader, state=last)
        else:
            memory = Memory.of_states(F, mechanism=mechanism, reader=reader, state=last)
        written.append(replace(memory, names=each.names))
    return written


def _state_before(encoder: TextEncoder, pending: Sequence[PendingText]) -> Tensor | None:
    """The encoder state `[1, s]` of the memory that is extended; None for new texts."""
    before = pending[0].memory
    if before is None:
        return None
    if not encoder.extends:
        expected = "a reader with an encoder that can extend: gru, lookahead or second-order"
        raise OptionError.expected(
            "extend", expected, f"a {encoder.network.options.encoder} one", "read the whole text again"
        )
    size = encoder.network.document_encoder.state_size
    if before.state.size != size:
        raise OptionError.expected(
            "extend", f"a memory with an encoder state of size {size}", f"size {before.state.size}"
        )
    return torch.from_numpy(before.state.copy())[None].to(encoder.device)
