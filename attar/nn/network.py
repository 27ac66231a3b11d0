"""The whole network: embeddings, a document's encoder, a question's, a mechanism, an answer head."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.nn.attention import Memories, attention
from attar.nn.attention.keyed import KeyedAttention
from attar.nn.attention.named import NamedAttention
from attar.nn.cooccurrence import CooccurrenceScore
from attar.nn.encoder import TWO_WAY, encoder
from attar.nn.heads import AskedNames, CopyHead, PaperHead
from attar.nn.network_options import NetworkOptions

# How far embeddings start from 0, words' and names'. A readout sums over all tokens, of which one in forty is a
# name in a novel: with words as large as names, what differs between questions is lost among them, and the
# paper's head sits on a plateau until they have become small (decisions.md).
WORD_SCALE, NAME_SCALE = 0.1, 2.0


@dataclass(frozen=True)
class Documents:
    """A batch of documents. What is not `ids` or `candidates` is best left on the CPU: no step waits for it."""

    ids: Int[Tensor, "B n"]
    lengths: Int[Tensor, " B"]
    sentence_ends: Bool[Tensor, "B n"]
    names: Int[Tensor, "B n"]  # which of its document's candidates each token is, -1 for none
    candidates: Int[Tensor, "B c"]  # the entity number of each, -1 behind the last or if the text lost it

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
    blanks: Int[Tensor, " Q"]  # where the blank is
    documents: Int[Tensor, " Q"]  # which document each is about
    places: Int[Tensor, " Q"]  # its place in [B, m], flattened
    most: int  # questions a document, at most
    asked: Bool[Tensor, "Q c"]  # the candidates that the question itself holds

    def to(self, device: torch.device | str) -> "Questions":
        """The same on another device, but for the lengths."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("ids", "blanks", "documents", "places", "asked")
        }
        return replace(self, **moved)


class Network(nn.Module):
    """Reads documents into memories once, and scores the names of each for every question.

    >>> options = NetworkOptions(words=9, entities=2, embedding=3, size=2)
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
        self.embedding = nn.Embedding(options.words, options.embedding, padding_idx=0)
        self.dropout = nn.Dropout(options.dropout)
        join: dict[str, Any] = {"join": options.join} if options.encoder in TWO_WAY else {}
        self.document_encoder = encoder(options.encoder, options.embedding, options.size, **join)
        # A question is one sentence: to look ahead within it is to see all of it.
        self.at_blank = options.encoder in ("lookahead", "bidirectional")
        kind = "bidirectional" if self.at_blank else options.encoder
        self.question_encoder = encoder(kind, options.embedding, options.size, **join)
        extra: dict[str, Any] = {} if options.mechanism in ("none", "softmax") else {"scale": options.scale}
        if options.positive:
            extra = {"positive": True}
        self.mechanism = attention(options.mechanism, options.size, **extra)
        self.features = nn.Linear(options.size, options.size) if options.positive else None
        self.head = self._make_head(options)
        self.asked = AskedNames() if options.asked else None
        # Named as its weights are in files since version 0.1.0; `self.cooccurrence` is the same module.
        self.company = (
            CooccurrenceScore(options.words, options.first_entity, options.entities)
            if options.cooccurrence
            else None
        )
        self._spread_embeddings()

    @property
    def cooccurrence(self) -> CooccurrenceScore | None:
        """Scores candidates by co-occurrence, if the network has this part."""
        return self.company

    @staticmethod
    def _make_head(options: NetworkOptions) -> PaperHead | CopyHead:
        if options.head == "paper":
            return PaperHead(options.size, options.entities, options.head_size)
        if options.mechanism == "keyed":  # x_e · x_e is about that large
            return CopyHead(1 / (options.embedding * NAME_SCALE**2))
        return CopyHead(shares=options.positive or options.mechanism == "softmax")

    @torch.no_grad()
    def _spread_embeddings(self) -> None:
        """Let names start large and words small."""
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
        """The memories of documents, and the encoder's state to read on from; going on from earlier ones."""
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
        """The memories that states make, going on from earlier ones; only `keyed` writes the embeddings."""
        written: dict[str, Any] = {}
        if isinstance(self.mechanism, KeyedAttention):
            written = {"values": self.embedding(documents.ids) if embedded is None else embedded}
        elif isinstance(self.mechanism, NamedAttention):
            written = {"names": documents.names, "count": documents.candidates.shape[1]}
        if memories is None:
            return self.mechanism.encode(hidden, documents.lengths, **written)
        return self.mechanism.extend(memories, hidden, documents.lengths, **written)

    def ask(
        self, ids: Int[Tensor, "Q l"], lengths: Int[Tensor, " Q"], blanks: Int[Tensor, " Q"]
    ) -> Float[Tensor, "Q k"]:
        """The queries of questions: the state at the blank where it knows both sides of it, else the last."""
        hidden, last = self.question_encoder(self.dropout(self.embedding(ids)), lengths)
        if self.at_blank:
            at = blanks.to(hidden.device)[:, None, None].expand(-1, 1, hidden.shape[2])
            queries = hidden.gather(1, at)[:, 0]
        else:
            queries = last[:, : self.options.size]
        return self.query(self.dropout(queries))

    def query(self, states: Float[Tensor, "Q k"]) -> Float[Tensor, "Q k"]:
        """The queries that a question encoder's states make: positive ones where keys are positive."""
        return states if self.features is None else nn.functional.softplus(self.features(states))

    def forward(self, documents: Documents, questions: Questions) -> Float[Tensor, "Q c"]:
        """The scores of every document's candidates for each of its questions, -inf for no candidate."""
        memories, _ = self.read(documents)
        queries = self.ask(questions.ids, questions.lengths, questions.blanks)
        count = documents.ids.shape[0]
        rows = queries.new_zeros(count * questions.most, queries.shape[1])
        rows = rows.index_copy(0, questions.places, queries).view(count, questions.most, queries.shape[1])
        if self.options.head == "copy" and self.options.mechanism == "softmax":
            shares = (
                self.attention_sum(memories, rows, documents).flatten(0, 1).index_select(0, questions.places)
            )
            return self.choose(self.head(shares), documents, questions)
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
        """What the head makes of readouts."""
        if isinstance(self.head, PaperHead):
            candidates = documents.candidates.clamp(min=0)[questions.documents]
            scores: Tensor = self.head(readouts, queries, candidates)
            return scores
        if isinstance(self.mechanism, KeyedAttention):
            entities = self.embedding(documents.candidates.clamp(min=0) + self.options.first_entity)
            # Every question meets its own document's candidates: [Q, c, d] · [Q, d].
            readouts = torch.einsum("qcd,qd->qc", entities[questions.documents], readouts)
        copied: Tensor = self.head(readouts)
        return copied

    def choose(
        self, scores: Float[Tensor, "Q c"], documents: Documents, questions: Questions
    ) -> Float[Tensor, "Q c"]:
        """The scores with the names of the question moved, and -inf where there is no candidate."""
        if self.asked is not None:
            scores = self.asked(scores, questions.asked)
        return scores.masked_fill((documents.candidates < 0)[questions.documents], -torch.inf)

    def attention_sum(
        self, memories: Memories, queries: Float[Tensor, "B m k"], documents: Documents
    ) -> Float[Tensor, "B m c"]:
        """The softmax weights that each name's tokens get together (Kadlec et al. 2016)."""
        states = memories.state
        weights = torch.bmm(queries, states.mT)
        outside = torch.arange(states.shape[1], device=states.device) >= memories.tokens[:, None]
        weights = torch.softmax(weights.masked_fill(outside[:, None], -torch.inf), 2)
        names = documents.names.to(states.device, non_blocking=True).long()
        count = documents.candidates.shape[1]
        place = torch.where(names < 0, count, names)[:, None].expand_as(weights)
        sums = weights.new_zeros(*weights.shape[:2], count + 1).scatter_add(2, place, weights)
        return sums[:, :, :-1]
