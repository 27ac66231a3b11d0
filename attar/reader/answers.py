"""From queries to answers: look up in memories, score the names, rank them; and explain by token weights."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.errors import OptionError
from attar.memory.cooccurrence import weigh_cooccurrences
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.nn.cooccurrence import CooccurrenceScore
from attar.nn.mechanisms.base import length_scale
from attar.nn.mechanisms.baselines import NoAttention, SoftmaxAttention
from attar.nn.mechanisms.keyed import KeyMechanism, NamedAttention
from attar.nn.network import Documents, Network, Questions
from attar.reader.batches import PendingText, pad_texts
from attar.reader.encoding import QuestionBatch, TextEncoder, token_vectors
from attar.results import Answer
from attar.text.name_table import NameTable
from attar.text.names import NameFinder, learn_names, start_of_titles
from attar.text.tokens import iterate_sentences


def score_names(
    network: Network, queries: Tensor, memories: Sequence[Memory], questions: QuestionBatch
) -> Floats:
    """The probability of each name `[Q, c]`, for one query `[Q, k]` per memory; 0 in padding and for absent names."""
    options = network.options
    named = options.mechanism == "named"
    counts = np.array([len(each.numbers if named else each.names) for each in memories])
    if not named:
        counts = counts.clip(max=options.entities)
    width = int(counts.max(initial=0))
    if not width:
        return np.zeros((len(memories), 0), np.float32)
    readout_size = (
        width if named else options.embedding_size if options.mechanism == "keyed" else options.hidden_size
    )
    readouts = _look_up(memories, _scale_by_length(network, queries, memories), readout_size)
    candidates = np.where(np.arange(width) < counts[:, None], np.arange(width), -1)
    if named:
        _remove_absent(memories, readouts, candidates)
    mentioned = questions.mentions(options.first_entity, width)
    scores = _score(network, torch.from_numpy(readouts), queries, candidates, mentioned)
    if network.cooccurrence is not None:
        scores = scores + _score_cooccurrence(network.cooccurrence, memories, questions).to(scores.device)
    # A row without candidates is all -inf, and its softmax NaN.
    return torch.softmax(scores, 1).nan_to_num_(0.0).cpu().numpy()


def rank_names(probabilities: Floats, memories: Sequence[Memory], top: int | None) -> list[list[Answer]]:
    """The most likely names of each row, at most `top`, without names of probability 0."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    best = np.take_along_axis(probabilities, order, 1)
    present = best > 0
    # Converted from numpy all at once, which is faster than row by row.
    places, values = order[present].tolist(), best[present].tolist()
    answers, start = [], 0
    for memory, count in zip(memories, present.sum(1).tolist(), strict=True):
        names = map(memory.names.names.__getitem__, places[start : start + count])
        answers.append(list(map(Answer, names, values[start : start + count], repeat("name"))))
        start += count
    return answers


def _scale_by_length(network: Network, queries: Tensor, memories: Sequence[Memory]) -> Floats:
    """The queries divided as the mechanism divides readouts: by √tokens, by tokens or not at all."""
    tokens = np.array([memory.tokens for memory in memories], np.float32)[:, None]
    values: Floats = queries.float().cpu().numpy()
    scaled: Floats = values / length_scale(getattr(network.mechanism, "scale", None), tokens)
    return scaled


def _look_up(memories: Sequence[Memory], queries: Floats, width: int) -> Floats:
    """The readout of each query from its own memory: `[Q, width]`, padded with 0."""
    rows: dict[int, list[int]] = {}
    for row, memory in enumerate(memories):
        rows.setdefault(id(memory), []).append(row)
    readouts = np.zeros((len(queries), width), np.float32)
    for own in rows.values():
        # A slice for one row: numpy takes far longer to index by a list.
        at = slice(own[0], own[0] + 1) if len(own) == 1 else own
        own_readouts = memories[own[0]].lookup(queries[at])
        readouts[at, : own_readouts.shape[1]] = own_readouts
    return readouts


def _remove_absent(memories: Sequence[Memory], scores: Floats, candidates: NDArray[np.int64]) -> None:
    """Remove candidates of which nothing was written: a shared table also holds the names of other texts."""
    # A vector of zeros scores exactly 0, so only these need a check.
    for row, name in zip(*np.nonzero((scores == 0) & (candidates >= 0)), strict=True):
        if not memories[row].numbers[name].any():
            candidates[row, name] = -1


def _score(
    network: Network,
    readouts: Tensor,
    queries: Tensor,
    candidates: NDArray[np.int64],
    mentioned: NDArray[np.bool_],
) -> Tensor:
    """The scores `[Q, c]` that the network's head gives to readouts, -inf where there is no candidate."""
    device, count = queries.device, len(queries)
    empty = torch.empty(count, 0, dtype=torch.int64)
    rows = torch.arange(count)
    documents = Documents(empty, rows, empty.bool(), empty, torch.from_numpy(candidates)).to(device)
    questions = Questions(empty, rows, rows, rows, rows, 1, torch.from_numpy(mentioned)).to(device)
    scores = network.score(readouts.to(device), queries, documents, questions)
    return network.choose(scores, documents, questions)


def _score_cooccurrence(
    scorer: CooccurrenceScore, memories: Sequence[Memory], questions: QuestionBatch
) -> Tensor:
    """The scores `[Q, c]` for words and names of the question that share sentences with candidates."""
    device = scorer.words.device
    weights = scorer.weigh(torch.from_numpy(questions.ids).to(device)).cpu().numpy()
    row, place = np.nonzero(weights.any(2))
    starts = np.searchsorted(row, np.arange(len(memories) + 1))
    counts = [own for memory in memories if (own := memory.cooccurrence) is not None]
    if len(counts) < len(memories):
        expected = "one with co-occurrence counts"
        raise OptionError.expected("memory", expected, "one without", "read the text again")
    near = weigh_cooccurrences(counts, questions.ids[row, place], weights[row, place], starts)
    mentions = np.zeros(near.shape[:2], np.float32)
    for at, own in enumerate(counts):
        mentions[at, : len(own)] = own.mentions
    scores: Tensor = scorer(torch.from_numpy(near).to(device), torch.from_numpy(mentions).to(device))
    return scores


def token_weights(encoder: TextEncoder, pending: PendingText, query: Tensor) -> list[float]:
    """The weight of each token of a text for a query `[k]`, depending on the mechanism.

    linear                      h · q
    gated, decayed, adaptive    f · q, without later forgetting
    softmax                     softmax(h · q)
    keyed                       key · q
    named                       key · q if the token is a name, else 0
    none                        1 for the last token, else 0
    """
    network, count = encoder.network, len(pending.text)
    if isinstance(network.mechanism, NoAttention):
        return [0.0] * (count - 1) + [1.0] * min(count, 1)
    documents = pad_texts([pending.text], len(pending.names)).to(encoder.device)
    hidden = encoder.hidden_states(documents)[0]
    if isinstance(network.mechanism, KeyMechanism):
        weights = network.mechanism.keys(hidden[0]) @ query
    else:
        weights = token_vectors(network, hidden)[0] @ query
    if isinstance(network.mechanism, SoftmaxAttention):
        weights = torch.softmax(weights, 0)
    values = weights.cpu().numpy()
    if isinstance(network.mechanism, NamedAttention):
        values = np.where(pending.text.names >= 0, values, 0.0)
    return [float(weight) for weight in values]


def spell_tokens(text: str, finder: NameFinder, table: NameTable) -> list[str]:
    """The tokens of a text as they are read: a name is one token, with its titles, as the text has it.

    >>> from attar.text import CapitalFinder, Vocabulary
    >>> spell_tokens("Then Ann Lee met Mr. Bob. Ann left.", CapitalFinder(Vocabulary(())), NameTable())
    ['Then', 'Ann Lee', 'met', 'Mr. Bob', '.', 'Ann', 'left', '.']
    """
    tokens: list[str] = []
    for sentence in iterate_sentences(text):
        done = 0
        for start, stop, _ in learn_names(sentence, table, finder):
            first = start_of_titles(sentence, start, done)
            tokens += [*sentence[done:first], " ".join(sentence[first:stop])]
            done = stop
        tokens += sentence[done:]
    return tokens
