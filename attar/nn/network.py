"""The whole network: embeddings, document and question encoders, a mechanism, and an answer head.

| head  | scores a name by                            | with                                            |
|-------|---------------------------------------------|-------------------------------------------------|
| paper | its own row of W_o tanh(W_r R + W_q q)      | none, softmax, linear, gated, decayed, adaptive |
| copy  | the readout and what was written for it     | keyed, named, softmax                           |
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.nn.cooccurrence import CooccurrenceScore
from attar.nn.encoders import TWO_WAY, encoder, name_in_files
from attar.nn.mechanisms import attention
from attar.nn.mechanisms.base import Memories
from attar.nn.mechanisms.keyed import KeyedAttention, NamedAttention
from attar.nn.network_options import NetworkOptions

# The initial scale of the embeddings of words and of names. A readout sums over all tokens, of which one in forty is a
# name in a novel: with words as large as names, the difference between questions is lost, and training with the
# paper's head stays on a plateau until words have become small (decisions.md).
WORD_SCALE, NAME_SCALE = 0.1, 2.0


@dataclass(frozen=True)
class Documents:
    """A batch of documents. All but `ids` and `candidates` are best left on the CPU: no step waits for them."""

    ids: Int[Tensor, "B n"]
    lengths: Int[Tensor, " B"]
    sentence_ends: Bool[Tensor, "B n"]
    names: Int[Tensor, "B n"]  # the index of each token among its document's candidates, -1 for none
    candidates: Int[Tensor, "B c"]  # their entity numbers, -1 after the last or if it is not in the text

    def to(self, device: torch.device | str) -> "Documents":
        """The same with its ids on another device."""
        return replace(
            self,
            ids=self.ids.to(device, non_blocking=True),
            candidates=self.candidates.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class Questions:
    """A batch of questions on a batch of documents."""

    ids: Int[Tensor, "Q l"]
    lengths: Int[Tensor, " Q"]
    blanks: Int[Tensor, " Q"]  # position of the blank
    documents: Int[Tensor, " Q"]  # index of the document of each
    places: Int[Tensor, " Q"]  # index in [B, m], flattened
    most: int  # questions per document, at most
    asked: Bool[Tensor, "Q c"]  # the candidates that occur in the question itself

    def to(self, device: torch.device | str) -> "Questions":
        """The same on another device, except the lengths."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("ids", "blanks", "documents", "places", "asked")
        }
        return replace(self, **moved)


class PaperHead(nn.Module):
    """W_o tanh(W_r R + W_q q) over all entity ids, of which those of the document are selected.

    The hidden layer has `width` units, by default the size of a readout: more of them distinguish more names, and do
    not make memories larger.
    """

    def __init__(self, size: int, entities: int, width: int | None = None) -> None:
        super().__init__()
        width = width or size
        self.of_readout = nn.Linear(size, width, bias=False)
        self.of_query = nn.Linear(size, width)
        self.entities = nn.Linear(width, entities)

    def forward(
        self, readouts: Float[Tensor, "Q k"], queries: Float[Tensor, "Q k"], candidates: Int[Tensor, "Q c"]
    ) -> Float[Tensor, "Q c"]:
        """The score of each candidate, given by its entity id."""
        mixed = torch.tanh(self.of_readout(readouts) + self.of_query(queries))
        scores: Tensor = self.entities(mixed)
        return scores.gather(1, candidates)


class CopyHead(nn.Module):
    """The value of a readout for each candidate, multiplied by one learnt sharpness.

    With `shares`, the values are positive weights, and scores their logarithms: probabilities are then proportional to
    the weights, as in the attention-sum reader (Kadlec et al. 2016).
    """

    def __init__(self, sharpness: float = 1.0, *, shares: bool = False) -> None:
        super().__init__()
        self.shares = shares
        self.sharpness = nn.Parameter(torch.tensor(math.log(sharpness)))

    def forward(self, values: Float[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """The scores of the candidates."""
        scores = torch.log(values.clamp(min=1e-9)) if self.shares else values
        return scores * self.sharpness.exp()


class AskedNames(nn.Module):
    """A learnt bonus on the score of names that occur in the question itself: they are seldom its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.bonus = nn.Parameter(torch.zeros(()))

    def forward(self, scores: Float[Tensor, "Q c"], asked: Bool[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """The scores, with the bonus on names in the question."""
        return scores + self.bonus * asked.to(scores.dtype)


class Network(nn.Module):
    """Reads documents into memories once, and scores the names of each for every question.

    >>> options = NetworkOptions(words=9, entities=2, embedding_size=3, hidden_size=2)
    >>> network = Network(options)
    >>> print(network.mechanism)
    GatedAttention(
      size=2, scale='sqrt'
      (gate): Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, options: NetworkOptions) -> None:
        super().__init__()
        self.options = options
        self.embedding = nn.Embedding(options.words, options.embedding_size, padding_idx=0)
        self.dropout = nn.Dropout(options.dropout)
        join: dict[str, Any] = {"join": options.join} if options.encoder in TWO_WAY else {}
        self.document_encoder = encoder(options.encoder, options.embedding_size, options.hidden_size, **join)
        # A question is one sentence: looking ahead within it is reading all of it.
        self.at_blank = options.encoder in (*TWO_WAY, "transformer")
        kind = "bidirectional" if options.encoder in TWO_WAY else options.encoder
        self.question_encoder = encoder(kind, options.embedding_size, options.hidden_size, **join)
        extra: dict[str, Any] = {} if options.mechanism in ("none", "softmax") else {"scale": options.scale}
        if options.positive:
            extra = {"positive": True}
        self.mechanism = attention(options.mechanism, options.hidden_size, **extra)
        self.features = nn.Linear(options.hidden_size, options.hidden_size) if options.positive else None
        self.head = self._make_head(options)
        self.asked = AskedNames() if options.asked else None
        # Scores candidates by co-occurrence.
        self.cooccurrence = (
            CooccurrenceScore(options.words, options.first_entity, options.entities)
            if options.cooccurrence
            else None
        )
        name_in_files(self, cooccurrence="company")
        self._scale_embeddings()

    @staticmethod
    def _make_head(options: NetworkOptions) -> PaperHead | CopyHead:
        if options.head == "paper":
            return PaperHead(options.hidden_size, options.entities, options.head_size)
        if options.mechanism == "keyed":  # x_e · x_e is about this large
            return CopyHead(1 / (options.embedding_size * NAME_SCALE**2))
        return CopyHead(shares=options.positive or options.mechanism == "softmax")

    @torch.no_grad()
    def _scale_embeddings(self) -> None:
        """Scale the initial embeddings: names large, words small."""
        first, last = self.options.first_entity, self.options.first_entity + self.options.entities
        self.embedding.weight[:first] *= WORD_SCALE
        self.embedding.weight[first:last] *= NAME_SCALE
        self.embedding.weight[last:] *= WORD_SCALE

    def read(
        self,
        documents: Documents,
        *,
        state: Float[Tensor, "B s"] | None = None,
        memories: Memories | None = None,
    ) -> tuple[Memories, Float[Tensor, "B s"]]:
        """The memories of documents, continuing from earlier ones, and the encoder's state to continue from."""
        embedded = self.embedding(documents.ids)
        hidden, state = self.document_encoder(
            self.dropout(embedded), documents.lengths, sentence_ends=documents.sentence_ends, state=state
        )
        return self.write(self.dropout(hidden), embedded, documents, memories), state

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        embedded: Float[Tensor, "B n e"] | None,
        documents: Documents,
        memories: Memories | None = None,
    ) -> Memories:
        """The memories of states, continuing from earlier ones; only `keyed` writes the embeddings."""
        extra: dict[str, Any] = {}
        if isinstance(self.mechanism, KeyedAttention):
            extra = {"values": self.embedding(documents.ids) if embedded is None else embedded}
        elif isinstance(self.mechanism, NamedAttention):
            extra = {"names": documents.names, "count": documents.candidates.shape[1]}
        if memories is None:
            return self.mechanism.encode(hidden, documents.lengths, **extra)
        return self.mechanism.extend(memories, hidden, documents.lengths, **extra)

    def ask(
        self, ids: Int[Tensor, "Q l"], lengths: Int[Tensor, " Q"], blanks: Int[Tensor, " Q"]
    ) -> Float[Tensor, "Q k"]:
        """The queries of questions: the state at the blank if it depends on both sides of it, else the last."""
        hidden, last = self.question_encoder(self.dropout(self.embedding(ids)), lengths)
        if self.at_blank:
            index = blanks.to(hidden.device)[:, None, None].expand(-1, 1, hidden.shape[2])
            queries = hidden.gather(1, index)[:, 0]
        else:
            queries = last[:, : self.options.hidden_size]
        return self.query(self.dropout(queries))

    def query(self, states: Float[Tensor, "Q k"]) -> Float[Tensor, "Q k"]:
        """The queries of a question encoder's states: positive where keys are positive."""
        return states if self.features is None else nn.functional.softplus(self.features(states))

    def forward(self, documents: Documents, questions: Questions) -> Float[Tensor, "Q c"]:
        """The scores of every document's candidates for each of its questions, -inf for no candidate."""
        memories, _ = self.read(documents)
        queries = self.ask(questions.ids, questions.lengths, questions.blanks)
        count = documents.ids.shape[0]
        rows = queries.new_zeros(count * questions.most, queries.shape[1])
        rows = rows.index_copy(0, questions.places, queries).view(count, questions.most, queries.shape[1])
        if self.options.head == "copy" and self.options.mechanism == "softmax":
            shares = self.attention_sum(memories, rows, documents).flatten(0, 1)
            return self.choose(self.head(shares.index_select(0, questions.places)), documents, questions)
        readouts = self.mechanism.lookup(memories, rows).flatten(0, 1).index_select(0, questions.places)
        scores = self.score(readouts, queries, documents, questions)
        if self.cooccurrence is not None:
            scores = scores + self.cooccurrence.score(documents, questions)
        return self.choose(scores, documents, questions)

    def score(
        self,
        readouts: Float[Tensor, "Q d"],
        queries: Float[Tensor, "Q k"],
        documents: Documents,
        questions: Questions,
    ) -> Float[Tensor, "Q c"]:
        """The scores that the head computes from readouts."""
        if isinstance(self.head, PaperHead):
            candidates = documents.candidates.clamp(min=0)[questions.documents]
            scores: Tensor = self.head(readouts, queries, candidates)
            return scores
        if isinstance(self.mechanism, KeyedAttention):
            entities = self.embedding(documents.candidates.clamp(min=0) + self.options.first_entity)
            # Each question with its own document's candidates: [Q, c, d] · [Q, d].
            readouts = torch.einsum("qcd,qd->qc", entities[questions.documents], readouts)
        copied: Tensor = self.head(readouts)
        return copied

    def choose(
        self, scores: Float[Tensor, "Q c"], documents: Documents, questions: Questions
    ) -> Float[Tensor, "Q c"]:
        """The scores with the bonus of names in the question, and -inf where there is no candidate."""
        if self.asked is not None:
            scores = self.asked(scores, questions.asked)
        return scores.masked_fill((documents.candidates < 0)[questions.documents], -torch.inf)

    def attention_sum(
        self, memories: Memories, queries: Float[Tensor, "B m k"], documents: Documents
    ) -> Float[Tensor, "B m c"]:
        """The sum of the softmax weights of each name's tokens (Kadlec et al. 2016)."""
        states = memories.state
        weights = torch.bmm(queries, states.mT)
        outside = torch.arange(states.shape[1], device=states.device) >= memories.tokens[:, None]
        weights = torch.softmax(weights.masked_fill(outside[:, None], -torch.inf), 2)
        names = documents.names.to(states.device, non_blocking=True).long()
        count = documents.candidates.shape[1]
        index = torch.where(names < 0, count, names)[:, None].expand_as(weights)
        sums = weights.new_zeros(*weights.shape[:2], count + 1).scatter_add(2, index, weights)
        return sums[:, :, :-1]
