"""The whole network: embeddings, document and question encoders, a mechanism, and an answer head.

| head  | scores a name by                        | with                                            |
|-------|-----------------------------------------|-------------------------------------------------|
| paper | its own row of W_o tanh(W_r R + W_q q)  | none, softmax, linear, gated, decayed, adaptive |
| copy  | the readout and what was written for it | keyed, keyed-ridge                              |
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import safetensors.torch
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from torch import Tensor, nn

from attar.errors import FormatError
from attar.files import atomic_files
from attar.nn.mechanisms import attention
from attar.nn.mechanisms.base import Memories
from attar.nn.mechanisms.keyed import KeyedAttention
from attar.ops.checks import length_mask
from attar.paper.options import COPY_MECHANISMS, NetworkOptions, mechanism_options
from attar.paper.words import FIRST_ENTITY, PAD, VOCABULARY_FILE, Vocabulary

# The initial scales of the embeddings of words and of names. A readout sums over all tokens, of which one in forty is
# a name in a novel: with words as large as names, the difference between questions is lost, and training with the
# paper's head stays on a plateau until words have become small.
WORD_SCALE = 0.1
NAME_SCALE = 2.0


@dataclass(frozen=True)
class Documents:
    """A batch of documents. On a GPU, `ids` and `candidates` are there; no step waits for the others."""

    ids: Int[Tensor, "B n"]
    lengths: Int[Tensor, " B"]
    names: Int[Tensor, "B n"]  # the index of each token among its document's candidates, -1 for none
    candidates: Int[Tensor, "B c"]  # their entity numbers, -1 after the last or if it is not in the text


@dataclass(frozen=True)
class Questions:
    """A batch of questions on a batch of documents; `lengths` stay on the CPU."""

    ids: Int[Tensor, "Q l"]
    lengths: Int[Tensor, " Q"]
    documents: Int[Tensor, " Q"]  # index of the document of each
    places: Int[Tensor, " Q"]  # index in [B, m], flattened
    most: int  # questions per document, at most
    asked: Bool[Tensor, "Q c"]  # the candidates that occur in the question itself


class Encoder(nn.Module):
    """Embeddings to states: a forward GRU, the paper's encoder."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.gru = nn.GRU(input_size, size, batch_first=True)

    def forward(self, x: Float[Tensor, "B n d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n k"]:
        """The states, 0 in padding; lengths may be on the CPU while the embeddings are on a GPU."""
        if 0 in x.shape[:2]:
            return x.new_zeros(*x.shape[:2], self.gru.hidden_size)
        mask = length_mask(lengths, x)
        # Padding must not meet a weight: 0 · NaN would reach its gradient.
        states: Tensor = self.gru(_blank(x, mask))[0]
        return _blank(states, mask)


def _blank(x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None) -> Float[Tensor, "B n d"]:
    """The same with 0 in padding."""
    return x if mask is None else x.masked_fill(~mask[:, :, None], 0)


class PaperHead(nn.Module):
    """W_o tanh(W_r R + W_q q) over all entity ids, of which those of the document are selected."""

    def __init__(self, size: int, entities: int) -> None:
        super().__init__()
        self.of_readout = nn.Linear(size, size, bias=False)
        self.of_query = nn.Linear(size, size)
        self.entities = nn.Linear(size, entities)

    def forward(
        self, readouts: Float[Tensor, "Q k"], queries: Float[Tensor, "Q k"], candidates: Int[Tensor, "Q c"]
    ) -> Float[Tensor, "Q c"]:
        mixed = torch.tanh(self.of_readout(readouts) + self.of_query(queries))
        scores: Tensor = self.entities(mixed)
        return scores.gather(1, candidates)


class CopyHead(nn.Module):
    """The value of a readout for each candidate, multiplied by one learnt sharpness."""

    def __init__(self, sharpness: float = 1.0) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(math.log(sharpness)))

    def forward(self, values: Float[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        return values * self.sharpness.exp()


class Network(nn.Module):
    """Reads documents into memories once, and scores the names of each for every question.

    `words` is the size of the vocabulary, its names included; `entities` the number of these.

    >>> network = Network(NetworkOptions(embedding_size=3, hidden_size=2), words=9, entities=2)
    >>> print(network.mechanism)
    GatedAttention(
      size=2, scale='sqrt'
      (gate): Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, options: NetworkOptions, words: int, entities: int) -> None:
        super().__init__()
        self.options = options
        size = options.hidden_size
        self.embedding = nn.Embedding(words, options.embedding_size, padding_idx=PAD)
        self.dropout = nn.Dropout(options.dropout)
        self.document_encoder = Encoder(options.embedding_size, size)
        self.question_encoder = Encoder(options.embedding_size, size)
        kind, given = mechanism_options(options.mechanism)
        self.mechanism = attention(kind, size, **given)
        self.head = self._make_head(entities)
        # A learnt bonus on the score of names that occur in the question itself: they are seldom its answer.
        self.asked_bonus = nn.Parameter(torch.zeros(()))
        self._scale_embeddings(entities)

    def _make_head(self, entities: int) -> PaperHead | CopyHead:
        options = self.options
        if options.mechanism not in COPY_MECHANISMS:
            return PaperHead(options.hidden_size, entities)
        return CopyHead(1 / (options.embedding_size * NAME_SCALE**2))  # x_e · x_e is about this large

    @torch.no_grad()
    def _scale_embeddings(self, entities: int) -> None:
        last = FIRST_ENTITY + entities
        self.embedding.weight[:FIRST_ENTITY] *= WORD_SCALE
        self.embedding.weight[FIRST_ENTITY:last] *= NAME_SCALE
        self.embedding.weight[last:] *= WORD_SCALE

    def read(self, documents: Documents) -> Memories:
        """The memories of documents; only `keyed` writes the embeddings."""
        embedded = self.embedding(documents.ids)
        hidden: Tensor = self.document_encoder(self.dropout(embedded), documents.lengths)
        written = {"values": embedded} if isinstance(self.mechanism, KeyedAttention) else {}
        return self.mechanism.encode(self.dropout(hidden), documents.lengths, **written)

    def ask(self, questions: Questions) -> Float[Tensor, "Q k"]:
        """The queries of questions: their last states."""
        hidden: Tensor = self.question_encoder(self.dropout(self.embedding(questions.ids)), questions.lengths)
        last = (questions.lengths - 1).clamp(min=0).to(hidden.device, non_blocking=True)
        queries: Tensor = self.dropout(
            hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[2]))[:, 0]
        )
        return queries

    def forward(self, documents: Documents, questions: Questions) -> Float[Tensor, "Q c"]:
        """The scores of every document's candidates for each of its questions, -inf for no candidate."""
        memories = self.read(documents)
        queries = self.ask(questions)
        count = documents.ids.shape[0]
        rows = queries.new_zeros(count * questions.most, queries.shape[1])
        rows = rows.index_copy(0, questions.places, queries).view(count, questions.most, queries.shape[1])
        readouts = self.mechanism.lookup(memories, rows).flatten(0, 1).index_select(0, questions.places)
        scores = self._score(readouts, queries, documents, questions)
        scores = scores + self.asked_bonus * questions.asked.to(scores.dtype)
        return scores.masked_fill((documents.candidates < 0)[questions.documents], -torch.inf)

    def _score(
        self,
        readouts: Float[Tensor, "Q d"],
        queries: Float[Tensor, "Q k"],
        documents: Documents,
        questions: Questions,
    ) -> Float[Tensor, "Q c"]:
        candidates = documents.candidates.clamp(min=0)
        if isinstance(self.head, PaperHead):
            scores: Tensor = self.head(readouts, queries, candidates[questions.documents])
            return scores
        entities = self.embedding(candidates + FIRST_ENTITY)
        # Each question with its own document's candidates: [Q, c, d] · [Q, d].
        copied: Tensor = self.head(torch.einsum("qcd,qd->qc", entities[questions.documents], readouts))
        return copied


_CONFIG = "config.json"
_WEIGHTS = "weights.safetensors"
NETWORK_FILES = (_CONFIG, VOCABULARY_FILE, _WEIGHTS)


class _Config(msgspec.Struct):
    network: NetworkOptions
    about: dict[str, Any]
    format: Literal[1] = 1


@dataclass(frozen=True)
class SavedNetwork:
    """The contents of a network's folder; `about` says how it was trained."""

    network: Network
    vocabulary: Vocabulary
    about: dict[str, Any]


def save_network(folder: Path, network: Network, vocabulary: Vocabulary, about: dict[str, Any]) -> None:
    config = msgspec.to_builtins(_Config(network.options.network(), about))
    weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
    with atomic_files(folder) as path_of:
        path_of(VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        path_of(_WEIGHTS).write_bytes(safetensors.torch.save(weights))
        path_of(_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_network(folder: Path) -> SavedNetwork:
    """Load a network's folder; the error for a missing, damaged or foreign file names the file."""
    try:
        # Not msgspec's decoder, which refuses NaN: a history may have it.
        config = msgspec.convert(json.loads((folder / _CONFIG).read_bytes()), _Config)
    except OSError as fault:
        remedy = "train one with attar paper train"
        raise FormatError(f"{folder} is not a network's folder: it has no {_CONFIG}", remedy) from fault
    except (ValueError, RecursionError) as fault:
        raise _damaged(folder / _CONFIG, fault) from fault
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    try:
        with torch.device("meta"):
            network = Network(config.network, len(vocabulary), vocabulary.entities)
        weights = safetensors.torch.load_file(folder / _WEIGHTS)
        network.load_state_dict(weights, assign=True)
        if not all(
            value.dtype == torch.float32 and bool(value.isfinite().all()) for value in weights.values()
        ):
            raise ValueError("weights that are not finite float32 numbers")
    except (OSError, SafetensorError, RuntimeError, ValueError) as fault:
        raise _damaged(folder / _WEIGHTS, fault) from fault
    return SavedNetwork(network.eval(), vocabulary, config.about)


def _damaged(file: Path, fault: Exception) -> FormatError:
    reason = (str(fault).splitlines() or [type(fault).__name__])[0][:200]
    return FormatError(f"{file} is damaged or of another network ({reason})", "copy the whole folder again")
