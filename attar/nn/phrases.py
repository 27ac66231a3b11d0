"""Phrases: a document's spans as vectors, written without the question; a question is a query and its words' weights.

The score of the span from piece i to piece j for a question:

    (A h_i + B h_j) · q / √k        phrase vector · query
    + a·h_i + b·h_j + c_{j-i}       how likely the span is to be asked about (its prior)
    + Σ_t w_t max_{u in s} T_t·T_u  word overlap with the sentence s of the span, neighbours with less weight

h are the document's hidden states, w_t the weight of the question's piece t, T one vector per word piece. A memory
keeps the phrase vectors, the priors and the pieces of each sentence; T belongs to the reader.

A memory of fixed size has sums instead of phrase vectors, each of a key and a value, with the ridge readout of `keyed`
(`attar.ops.ridge_solution`):

    C = Σ key valueᵀ  [k, d],  G = Σ key keyᵀ  [k, k]
    score of a phrase = value · Cᵀ (G + λI)⁻¹ q · sharpness + its prior + word overlap

A key is a normalised phrase vector, a value the normalised sum of static vectors of the phrase's word pieces: a
candidate is compared by its own words. Without G, phrases with similar keys would drown each other.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attar.nn.transformer import Transformer, run_layers
from attar.ops.checks import Device, Dtype
from attar.ops.lookups import lookup, ridge_solution
from attar.options import LONGEST, PhraseOptions, TransformerShape


class SpanVectors(nn.Module):
    """A h_i + B h_j: the vector of the span from token i to token j, of states of `size` dimensions.

    >>> spans = SpanVectors(2, 1)
    >>> parameters = {"first.weight": torch.ones(1, 2), "first.bias": torch.zeros(1), "last.weight": torch.ones(1, 2)}
    >>> _ = spans.load_state_dict(parameters)
    >>> firsts, lasts = spans.ends(torch.tensor([[[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]]]))
    >>> at_spans(firsts, lasts, torch.tensor([[0, 1]]), torch.tensor([[2, 1]])).tolist()
    [[[5.0], [4.0]]]
    """

    def __init__(self, size: int, k: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.first = nn.Linear(size, k, device=device, dtype=dtype)
        self.last = nn.Linear(size, k, bias=False, device=device, dtype=dtype)

    def ends(self, hidden: Float[Tensor, "B n d"]) -> tuple[Float[Tensor, "B n k"], Float[Tensor, "B n k"]]:
        """A h and B h of every token, in the states' dtype: its parts in spans that start or end with it."""
        weight, bias, last = (
            p.to(hidden.dtype) for p in (self.first.weight, self.first.bias, self.last.weight)
        )
        return functional.linear(hidden, weight, bias), functional.linear(hidden, last)


def at_spans(
    firsts: Float[Tensor, "B n k"],
    lasts: Float[Tensor, "B n k"],
    first: Int[Tensor, "B p"],
    last: Int[Tensor, "B p"],
) -> Float[Tensor, "B p k"]:
    """The vectors of spans, given by their first and last tokens, from what `SpanVectors.ends` returned."""
    rows = torch.arange(len(first), device=first.device)[:, None]
    return firsts[rows, first] + lasts[rows, last]


class EncodedTexts(NamedTuple):
    """What a batch of texts is scored by: `[B, n, k]` twice, `[B, n, 2]`, `[B, n, w]`."""

    firsts: Tensor
    lasts: Tensor
    priors: Tensor
    words: Tensor

    def rows(self, at: Tensor) -> "EncodedTexts":
        """The texts of each question."""
        return EncodedTexts(*(part[at] for part in self))


class EncodedQuestions(NamedTuple):
    """Queries `[Q, k]`, the score of "no answer" `[Q]`, the weights `[Q, l]` and vectors `[Q, l, w]` of the words."""

    queries: Tensor
    nulls: Tensor
    weights: Tensor
    words: Tensor


class QuickQuestions(nn.Module):
    """A small question encoder: the first layers of the document encoder, shared, then layers of its own."""

    def __init__(
        self, options: PhraseOptions, shared: int = 0, layers: int = 2, *, device: Device = None
    ) -> None:
        super().__init__()
        shape = options.encoder
        self.shared = shared
        own = TransformerShape(1, shape.size, layers, shape.heads, shape.feedforward, 1)
        self.layers = Transformer(own, device=device).layers
        self.query = nn.Linear(shape.size, options.size, device=device)
        self.null = nn.Linear(shape.size, 1, device=device)
        self.weight = nn.Linear(shape.size, 1, device=device)

    def forward(self, encoder: Transformer, ids: Tensor, mask: Tensor) -> Tensor:
        """The hidden states of questions."""
        hidden: Tensor = encoder(ids, mask, torch.ones_like(ids), layers=self.shared)
        return run_layers(list(self.layers.layers), hidden, mask)


class RidgeReadout(nn.Module):
    """Queries `[k]` and values `[d]` of phrases; word embeddings have `size` numbers.

    >>> ridge = RidgeReadout(6, 4, 3)
    >>> state = {name: value for name, value in ridge.state_dict().items()}
    >>> _ = ridge.load_state_dict(state | {"query.weight": torch.eye(4), "query.bias": torch.zeros(4)})
    >>> memory = ridge.write(torch.eye(4)[None, :2], torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]))
    >>> ridge.read(memory, torch.eye(4)[1:2]).argmax().item()  # the second key finds the second value
    1
    """

    def __init__(self, size: int, k: int, d: int, *, device: Device = None) -> None:
        super().__init__()
        self.query = nn.Linear(k, k, device=device)
        # Queries and keys are trained to be alike: a good start for a reader that only gets this readout.
        nn.init.eye_(self.query.weight)
        nn.init.zeros_(self.query.bias)
        self.value = nn.Linear(size, d, bias=False, device=device)
        self.sharpness = nn.Parameter(torch.full((1,), 8.0, device=device))

    def keys(self, vectors: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """Unit keys of phrase vectors, in float32."""
        return functional.normalize(vectors.float(), dim=-1)

    def values(
        self, words: Float[Tensor, "B n h"], first: Int[Tensor, "B p"], last: Int[Tensor, "B p"]
    ) -> Float[Tensor, "B p d"]:
        """The normalised sums of the vectors of each span's word pieces, given the embeddings of all pieces."""
        sums = functional.pad(self.value(words).float().cumsum(1), (0, 0, 1, 0))
        rows = torch.arange(len(words), device=words.device)[:, None]
        return functional.normalize(sums[rows, last + 1] - sums[rows, first], dim=-1)

    def write(self, keys: Float[Tensor, "B p k"], values: Float[Tensor, "B p d"]) -> Float[Tensor, "B k dk"]:
        """C and G side by side; a phrase that does not count has a key of zeros."""
        with torch.autocast(keys.device.type, enabled=False):
            return keys.mT @ torch.cat([values, keys], -1)

    def read(self, memory: Float[Tensor, "B k dk"], queries: Float[Tensor, "B k"]) -> Float[Tensor, "B d"]:
        """The readout of one query per memory."""
        with torch.autocast(memory.device.type, enabled=False):
            return lookup(ridge_solution(memory), self.query(queries.float())[:, None])[:, 0]


class PhraseNetwork(SpanVectors):
    """The encoder, the maps of its states, and the scores of spans."""

    def __init__(self, options: PhraseOptions | None = None, *, device: Device = None) -> None:
        options = options or PhraseOptions()
        size, k = options.encoder.size, options.size
        super().__init__(size, k, device=device)
        self.options = options
        self.encoder = Transformer(options.encoder, device=device)
        self.prior = nn.Linear(size, 2, device=device)
        self.length_prior = nn.Parameter(torch.zeros(LONGEST, device=device))
        self.query = nn.Linear(size, k, device=device)
        self.null = nn.Linear(size, 1, device=device)
        self.weight = nn.Linear(size, 1, device=device)
        self.word = nn.Linear(size, options.word_size, bias=False, device=device)
        self.ridge = RidgeReadout(size, k, options.values, device=device) if options.values else None
        # How much the sentences before and after count.
        self.neighbours = nn.Parameter(torch.full((2,), 0.2, device=device))

    def encode_texts(self, ids: Int[Tensor, "B n"], mask: Bool[Tensor, "B n"]) -> EncodedTexts:
        """Texts between [CLS] and [SEP]."""
        hidden = self.encoder(ids, mask)
        # Without [CLS] and [SEP]: a memory keeps the words of sentences only.
        inside = mask & functional.pad(mask[:, 1:], (0, 1))
        inside[:, 0] = False
        return EncodedTexts(*self.ends(hidden), self.piece_priors(hidden), self.word_vectors(ids, inside))

    def encode_questions(
        self, ids: Int[Tensor, "Q l"], mask: Bool[Tensor, "Q l"], quick: QuickQuestions | None = None
    ) -> EncodedQuestions:
        """Questions between [CLS] and [SEP], by the document encoder or by a quick one."""
        heads = quick or self
        hidden = quick(self.encoder, ids, mask) if quick else self.encoder(ids, mask, torch.ones_like(ids))
        inside = mask.clone()
        inside[:, 0] = False
        weights = functional.softplus(heads.weight(hidden)[..., 0].float()) * inside
        queries, nulls = heads.query(hidden[:, 0]), heads.null(hidden[:, 0])[:, 0].float()
        return EncodedQuestions(queries, nulls, weights, self.word_vectors(ids, mask))

    def word_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A unit vector per word piece, whatever stands around it; 0 in padding."""
        return functional.normalize(self.word(self.encoder.words(ids)), dim=-1) * mask[..., None]

    def piece_priors(self, hidden: Float[Tensor, "B n d"]) -> Float[Tensor, "B n 2"]:
        """The scores of each piece as the first and as the last of a span, before any question."""
        priors: Tensor = self.prior(hidden).float()
        return priors

    def priors(self, pieces: Float[Tensor, "B n 2"], valid: Bool[Tensor, "B n w"]) -> Float[Tensor, "B n w"]:
        """The score of each span before any question, -inf where there is no span."""
        spans: Tensor = pieces[..., :1] + following(pieces[..., 1]) + self.length_prior
        return spans.masked_fill(~valid, float("-inf"))

    def score(
        self,
        texts: EncodedTexts,
        questions: EncodedQuestions,
        sentences: Int[Tensor, "Q n"],
        valid: Bool[Tensor, "Q n w"],
    ) -> Float[Tensor, "Q n w"]:
        """The score of each span of each question's own text, -inf where there is no span."""
        scale = self.options.size**-0.5
        starts = torch.einsum("qnk,qk->qn", texts.firsts, questions.queries).float() * scale
        ends = torch.einsum("qnk,qk->qn", texts.lasts, questions.queries).float() * scale
        overlap = self.overlap(texts.words, questions, sentences)
        scores: Tensor = (starts + overlap)[..., None] + following(ends)
        return scores + self.priors(texts.priors, valid)

    def overlap(
        self, words: Float[Tensor, "Q n w"], questions: EncodedQuestions, sentences: Int[Tensor, "Q n"]
    ) -> Float[Tensor, "Q n"]:
        """The word overlap of each piece's sentence with the question."""
        alike = torch.einsum("qlw,qnw->qln", questions.words, words).float()
        count = int(sentences.max()) + 1
        where = sentences[:, None].expand_as(alike)
        best = alike.new_zeros(*alike.shape[:2], count).scatter_reduce(2, where, alike, "amax")
        by_sentence = torch.einsum("qls,ql->qs", best, questions.weights)
        before = functional.pad(by_sentence, (1, 0))[:, :-1]
        after = functional.pad(by_sentence, (0, 1))[:, 1:]
        total: Tensor = by_sentence + self.neighbours[0] * before + self.neighbours[1] * after
        return total.gather(1, sentences)


def following(values: Float[Tensor, "... n"], padding: float = 0.0) -> Float[Tensor, "... n w"]:
    """The values at each place and the `LONGEST - 1` places after it.

    >>> following(torch.tensor([1.0, 2.0, 3.0]))[0, :4]
    tensor([1., 2., 3., 0.])
    """
    return functional.pad(values, (0, LONGEST - 1), value=padding).unfold(-1, LONGEST, 1)


def valid_spans(sentences: Int[Tensor, "B n"], inside: Bool[Tensor, "B n"]) -> Bool[Tensor, "B n w"]:
    """Spans of pieces of one sentence; `inside` is false for padding and special tokens."""
    numbers = torch.where(inside, sentences, -1)
    return inside[..., None] & (following(numbers.float(), -2.0) == numbers[..., None])
