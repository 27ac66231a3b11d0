"""The way of questions from queries to answers: look up, score, and name."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.errors import OptionError
from attar.memory import Memory, weighed_many
from attar.nn import Company, Documents, Network, Questions
from attar.reader.questions import QuestionBatch
from attar.results import Answer

Floats = NDArray[np.float32]


def probabilities(
    network: Network,
    queries: Tensor,
    memories: Sequence[Memory],
    asked: QuestionBatch,
) -> Floats:
    """How likely each name of each memory is, `[Q, c]`, 0 behind the last and for names that are not there.

    One memory for each of the queries `[Q, k]` of the questions that are asked.
    """
    named = network.options.mechanism == "named"
    counts = np.array([len(each.numbers if named else each.names) for each in memories])
    if not named:
        counts = counts.clip(max=network.options.entities)
    width = int(counts.max(initial=0))
    if not width:
        return np.zeros((len(memories), 0), np.float32)
    options = network.options
    read = width if named else options.embedding if options.mechanism == "keyed" else options.size
    readouts = look_up(memories, scaled(network, queries, memories), read)
    candidates = np.where(np.arange(width) < counts[:, None], np.arange(width), -1)
    if named:
        leave_out_absent(memories, readouts, candidates)
    mentioned = np.zeros((len(memories), width), np.bool_)
    mentioned[asked.names_in(options.first_entity, width)] = True
    scores = score(network, torch.from_numpy(readouts), queries, candidates, mentioned)
    if network.company is not None:
        scores = scores + near_question(network.company, memories, asked).to(scores.device)
    # A row of no candidates is all -inf, and 0 / 0 without this.
    return torch.softmax(scores, 1).nan_to_num_(0.0).cpu().numpy()


def near_question(company: Company, memories: Sequence[Memory], asked: QuestionBatch) -> Tensor:
    """What is added to the scores `[Q, c]` for the words and names that candidates share with the question."""
    device = company.words.device
    weights = company.weigh(torch.from_numpy(asked.ids).to(device)).cpu().numpy()
    row, place = np.nonzero(weights.any(2))
    starts = np.searchsorted(row, np.arange(len(memories) + 1))
    kept = [own for memory in memories if (own := memory.company) is not None]
    if len(kept) < len(memories):
        raise OptionError("memory", "one that keeps its names' company", "one without", "read the text again")
    near = weighed_many(kept, asked.ids[row, place], weights[row, place], starts)
    mentions = np.zeros(near.shape[:2], np.float32)
    for at, own in enumerate(kept):
        mentions[at, : len(own)] = own.mentions()
    added: Tensor = company(torch.from_numpy(near).to(device), torch.from_numpy(mentions).to(device))
    return added


def scaled(network: Network, queries: Tensor, memories: Sequence[Memory]) -> Floats:
    """The queries divided as the mechanism says: by √tokens, by tokens or not at all."""
    found = queries.float().cpu().numpy()
    scale = getattr(network.mechanism, "scale", None)
    if scale is None:
        return found
    tokens = np.array([max(memory.tokens, 1) for memory in memories], np.float32)[:, None]
    divided: Floats = found / (np.sqrt(tokens) if scale == "sqrt" else tokens)
    return divided


def look_up(memories: Sequence[Memory], queries: Floats, width: int) -> Floats:
    """The readout of each query from its own memory: `[Q, width]`, 0 behind a memory's last name."""
    rows: dict[int, list[int]] = {}
    for row, memory in enumerate(memories):
        rows.setdefault(id(memory), []).append(row)
    found = np.zeros((len(queries), width), np.float32)
    for own in rows.values():
        # Slices where one row is enough: numpy takes far longer to pick rows by a list.
        at = slice(own[0], own[0] + 1) if len(own) == 1 else own
        readouts = memories[own[0]].lookup(queries[at])
        found[at, : readouts.shape[1]] = readouts
    return found


def leave_out_absent(memories: Sequence[Memory], scores: Floats, candidates: NDArray[np.int64]) -> None:
    """Strike out names of which nothing was written: tables may be shared, and hold other texts' names."""
    # Nothing times any query is exactly 0, so only these need a look.
    for row, name in zip(*np.nonzero((scores == 0) & (candidates >= 0)), strict=True):
        if not memories[row].numbers[name].any():
            candidates[row, name] = -1


def score(
    network: Network,
    readouts: Tensor,
    queries: Tensor,
    candidates: NDArray[np.int64],
    mentioned: NDArray[np.bool_],
) -> Tensor:
    """What the network's head makes of readouts: the scores `[Q, c]`, -inf where there is no candidate."""
    device, count = queries.device, len(queries)
    nothing = torch.empty(count, 0, dtype=torch.int64)
    each = torch.arange(count)
    documents = Documents(nothing, each, nothing.bool(), nothing, torch.from_numpy(candidates)).to(device)
    questions = Questions(nothing, each, each, each, each, 1, torch.from_numpy(mentioned)).to(device)
    scores = network.score(readouts.to(device), queries, documents, questions)
    return network.choose(scores, documents, questions)


def best_first(shares: Floats, memories: Sequence[Memory], top: int | None) -> list[list[Answer]]:
    """The likeliest names of each row, those that are not there left out."""
    order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
    best = np.take_along_axis(shares, order, 1)
    there = best > 0
    # Numbers leave numpy all at once, and only those of names that are there.
    places, likely = order[there].tolist(), best[there].tolist()
    answers, start = [], 0
    for memory, count in zip(memories, there.sum(1).tolist(), strict=True):
        names = map(memory.names.names.__getitem__, places[start : start + count])
        answers.append(list(map(Answer, names, likely[start : start + count])))
        start += count
    return answers
