"""Memories of texts: written piece by piece, side by side, in bounded space."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.errors import OptionError
from attar.memory import Company, Memory, count_companies, stays_states
from attar.nn import Memories, Network, NetworkOptions
from attar.progress import Progress, tell_nobody
from attar.reader.documents import DocumentEncoder
from attar.reader.texts import Reading, in_step

Floats = NDArray[np.float32]


def write_memories(
    encoder: DocumentEncoder, readings: Sequence[Reading], reader: str, progress: Progress = tell_nobody
) -> list[Memory]:
    """The memory of each text, in their order. What goes on from a memory is read alone: one reading."""
    kept = [keeps_tokens(encoder.network.options, reading) for reading in readings]
    found: dict[int, Memory] = {}
    for apart, write in ((True, write_tokens), (False, write_sums)):
        chosen = [at for at, each in enumerate(kept) if each is apart]
        if chosen:
            memories = write(encoder, [readings[at] for at in chosen], reader, progress)
            found.update(zip(chosen, memories, strict=True))
    return [found[at] for at in range(len(readings))]


def keeps_tokens(options: NetworkOptions, reading: Reading) -> bool:
    """Whether the memory is what was written of each token, and not their sum: while that is less, or always."""
    if options.mechanism not in ("linear", "gated"):
        return options.mechanism == "softmax"
    before = reading.before
    if before is not None and before.form != "states":
        return False
    earlier = 0 if before is None else len(before.numbers)
    return stays_states(earlier + len(reading.text), options.size)


def write_sums(
    encoder: DocumentEncoder, readings: Sequence[Reading], reader: str, progress: Progress = tell_nobody
) -> list[Memory]:
    """Memories whose size is not their texts'."""
    state, memories = state_before(encoder, readings), None
    if (before := readings[0].before) is not None:
        array = torch.from_numpy(before.array())[None]
        memories = Memories(array, torch.tensor([before.tokens])).to(encoder.device)
    ended: dict[int, tuple[Tensor, Tensor]] = {}
    for texts, rows, documents in in_step(readings, whole=not encoder.reads_on, progress=progress):
        if memories is not None:
            memories = Memories(memories.state[rows], memories.tokens[rows])
        earlier = None if state is None else state[rows]
        memories, state = encoder.read(documents.to(encoder.device), earlier, memories)
        ended.update((text, (memories.state[row], state[row])) for row, text in enumerate(texts))
    mechanism = encoder.network.options.mechanism
    companies = companies_of(encoder.network, readings)
    found = []
    for at, reading in enumerate(readings):
        numbers, last = (tensor.cpu().numpy() for tensor in ended[at])
        tokens = len(reading.text) + (reading.before.tokens if reading.before else 0)
        memory = Memory.of(mechanism, numbers, tokens=tokens, reader=reader, state=last)
        # The table is the reading's own: it need not be copied.
        own: dict[str, Any] = {"names": reading.names}
        if memory.form == "names":
            own["numbers"] = np.array(numbers[: len(reading.names)], np.float32)
            own["company"] = companies[at]
        found.append(replace(memory, **own))
    return found


def companies_of(network: Network, readings: Sequence[Reading]) -> list[Company | None]:
    """The company of each text's names, where the network asks for it, going on from what was read before."""
    if network.company is None:
        return [None] * len(readings)
    options, counts = network.options, [len(reading.names) for reading in readings]
    counted = count_companies(
        np.concatenate([reading.text.names for reading in readings]),
        np.concatenate([reading.text.ids for reading in readings]),
        np.concatenate([reading.text.sentence_ends for reading in readings]),
        [len(reading.text) for reading in readings],
        counts=counts,
        first=options.first_entity,
        limit=options.entities,
        common=network.company.first_word,
    )
    companies: list[Company | None] = []
    for reading, count, new in zip(readings, counts, counted, strict=True):
        before = None if reading.before is None else reading.before.company
        companies.append(new if before is None else before.added(new, range(count), count))
    return companies


def write_tokens(
    encoder: DocumentEncoder, readings: Sequence[Reading], reader: str, progress: Progress = tell_nobody
) -> list[Memory]:
    """Memories that are what was written of each token: few states, or softmax's."""
    state = state_before(encoder, readings)
    written: list[list[Floats]] = [[each.before.widened()] if each.before else [] for each in readings]
    ended: dict[int, Floats] = {}
    for texts, rows, documents in in_step(readings, whole=not encoder.reads_on, progress=progress):
        earlier = None if state is None else state[rows]
        tokens, state = encoder.write_tokens(documents.to(encoder.device), earlier)
        vectors, states = tokens.cpu().numpy(), state.cpu().numpy()
        for row, text in enumerate(texts):
            written[text].append(vectors[row, : int(documents.lengths[row])])
            ended[text] = states[row]
    mechanism = encoder.network.options.mechanism
    found = []
    for at, reading in enumerate(readings):
        F = np.concatenate(written[at])
        if mechanism == "softmax":
            memory = Memory.of(mechanism, F, tokens=len(F), reader=reader, state=ended[at])
        else:
            memory = Memory.of_states(F, mechanism=mechanism, reader=reader, state=ended[at])
        found.append(replace(memory, names=reading.names))
    return found


def state_before(encoder: DocumentEncoder, readings: Sequence[Reading]) -> Tensor | None:
    """The state `[1, s]` that a text is read on from; None for texts that begin."""
    before = readings[0].before
    if before is None:
        return None
    wanted = encoder.network.document_encoder.state_size
    if before.state.size != wanted:
        came = f"one of {before.state.size} numbers"
        raise OptionError("extend", f"a memory with a state of {wanted} to read on from", came)
    return torch.from_numpy(before.state.copy())[None].to(encoder.device)
