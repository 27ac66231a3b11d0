"""Scores candidates by co-occurrence: the question's words and names that shared a sentence with each candidate.

    a_e = Σ_w ω_w log(1 + times_e(w))    over the distinct words w of the question
    b_e = Σ_x log(1 + times_e(x))        over its distinct names x
    score_e += p log(a_e + ε) + p' log(b_e + ε') − r log(mentions_e)

times_e(w) counts the mentions of e in whose sentence w occurs; ω is one learned weight per word. A candidate should
match both words and names, so these are two sums. The counts depend on no parameter and need no gradient: a memory
keeps them as they are (`attar.memory.Cooccurrence`).
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

if TYPE_CHECKING:
    from attar.nn.network import Documents, Questions

# The most common words co-occur with every name. They are not counted, and have no weights in saved readers.
COMMON = 200
# Initial values of p, r and ε, near those that training finds.
SHARPNESS, MENTIONS, FLOOR = 0.5, 0.0, 0.5


class CooccurrenceScore(nn.Module):
    """Scores candidates by their co-occurrence counts; ids from `first_word` on are words with a weight.

    >>> scorer = CooccurrenceScore(words=10, first_entity=3, entities=4, common=1)
    >>> scorer.weigh(torch.tensor([[0, 3, 7, 8, 8]])).gt(0).any(2).tolist()  # padding, a name, a common word, …
    [[False, True, False, True, False]]
    """

    def __init__(self, words: int, first_entity: int, entities: int, common: int | None = None) -> None:
        super().__init__()
        common = COMMON if common is None else common
        self.first_entity, self.last_entity = first_entity, first_entity + entities
        self.first_word = min(self.last_entity + common, words)
        # Computed on the CPU: for arithmetic on the meta device PyTorch imports its compiler, two seconds.
        device = torch.get_default_device()
        # Words are sorted by frequency, the most frequent first: rare words are more informative.
        rank = torch.arange(words - self.first_word, dtype=torch.float32, device="cpu") + common
        self.words = nn.Parameter((torch.log1p(rank) / 8).to(device))
        self.sharpness = nn.Parameter(torch.full((2,), SHARPNESS))  # p and p'
        self.mentions = nn.Parameter(torch.tensor(MENTIONS))
        self.floor = nn.Parameter(torch.full((2,), FLOOR, device="cpu").expm1().log().to(device))

    def weigh(self, ids: Int[Tensor, "Q l"]) -> Float[Tensor, "Q l 2"]:
        """The weight of each token as a word, ω, and as a name, 1.

        Padding, common words and repeated tokens of a question have the weight 0.
        """
        ids = ids.long()
        word, name = ids >= self.first_word, (ids >= self.first_entity) & (ids < self.last_entity)
        # Not by indexing, whose gradient is a slow sorted scatter on a GPU.
        place = (ids - self.first_word).clamp(min=0)
        weights_of = torch.relu(self.words) if len(self.words) else self.words.new_zeros(1)
        of_word = weights_of.index_select(0, place.flatten()).view(ids.shape)
        weights = torch.stack([torch.where(word, of_word, 0.0), name.to(self.words.dtype)], -1)
        return weights.masked_fill(_repeated(ids)[:, :, None], 0.0)

    def forward(self, near: Float[Tensor, "Q c 2"], mentions: Float[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """The scores of candidates, given a and b as `near`, and how often each is mentioned."""
        scores = torch.log(near + nn.functional.softplus(self.floor)) @ self.sharpness
        return scores - self.mentions * torch.log(mentions.clamp(min=1))

    def score(self, documents: "Documents", questions: "Questions") -> Float[Tensor, "Q c"]:
        """The scores of the questions' candidates, with counts from the documents' own tokens."""
        ids, about = documents.ids, questions.documents
        with torch.no_grad():
            # If the sentence ends are on the CPU, counting them does not synchronize with the GPU.
            most = int(documents.sentence_ends.sum(1).max()) + 1 if len(ids) else 0
            names, ends = (
                each.to(ids.device, non_blocking=True) for each in (documents.names, documents.sentence_ends)
            )
            sentence = ends.cumsum(1) - ends.long()
            names = _mask_padding(names, documents.lengths, -1)
            mentioned = mentions_in_sentences(names, sentence, documents.candidates.shape[1], most)
            asked = _mask_padding(questions.ids, questions.lengths, 0)
            tokens = _mask_padding(ids, documents.lengths, 0)
            times = count_cooccurrences(tokens, sentence, mentioned, asked, about)
        near = torch.log1p(times).to(self.words.dtype) @ self.weigh(asked)
        scores: Tensor = self(near, mentioned.sum(2)[about])
        return scores


def _mask_padding(ids: Int[Tensor, "B n"], lengths: Int[Tensor, " B"], padding: int) -> Int[Tensor, "B n"]:
    """The ids, with `padding` after the length of each row."""
    place = torch.arange(ids.shape[1], device=ids.device)
    return ids.masked_fill(place >= lengths.to(ids.device, non_blocking=True)[:, None], padding)


def _repeated(ids: Int[Tensor, "Q l"]) -> Bool[Tensor, "Q l"]:
    """True where the id occurred earlier in the row.

    >>> _repeated(torch.tensor([[5, 7, 5, 5]])).tolist()
    [[False, False, True, True]]
    """
    return (ids[:, :, None] == ids[:, None, :]).tril(-1).any(2)


def mentions_in_sentences(
    names: Int[Tensor, "B n"], sentence: Int[Tensor, "B n"], count: int, most: int
) -> Float[Tensor, "B c s"]:
    """How often each of `count` names is mentioned in each of `most` sentences.

    >>> names, sentence = torch.tensor([[0, -1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
    >>> mentions_in_sentences(names, sentence, 2, 2).tolist()
    [[[1.0, 1.0], [0.0, 1.0]]]
    """
    # Tokens that are not names are counted in one extra column at the end.
    place = torch.where(names < 0, count * most, names.long() * most + sentence)
    mentioned = torch.zeros(len(names), count * most + 1, device=names.device)
    mentioned.scatter_add_(1, place, mentioned.new_ones(()).expand(place.shape))
    return mentioned[:, :-1].reshape(len(names), count, most)


def count_cooccurrences(
    ids: Int[Tensor, "B n"],
    sentence: Int[Tensor, "B n"],
    mentioned: Float[Tensor, "B c s"],
    asked: Int[Tensor, "Q l"],
    documents: Int[Tensor, " Q"],
) -> Float[Tensor, "Q c l"]:
    """How many mentions of each candidate share a sentence with each token of the question."""
    # Padding has the id 0 in both.
    matches = (asked[:, :, None] == ids[documents][:, None, :]) & (asked > 0)[:, :, None]
    into = sentence[documents][:, None].expand_as(matches)
    present = mentioned.new_zeros(*asked.shape, mentioned.shape[2])
    present = present.scatter_add_(2, into, matches.to(present.dtype)).clamp_(max=1)
    return torch.bmm(mentioned[documents], present.mT)
