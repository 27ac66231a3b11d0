"""A name is known by the company it keeps: the question's words and names that shared a sentence with it.

    a_e = Σ_w ω_w log(1 + times_e(w))    over the question's words w, each once
    b_e = Σ_x log(1 + times_e(x))        over its names x, whose ids mean nothing
    score_e += p log(a_e + ε) + p' log(b_e + ε') − r log(mentions_e)

times_e(w) counts, over all mentions of e, those in whose sentence w occurs; ω is a learnt weight a word. Both must
fit, so words and names are not one sum. The counts need no gradient and no numbers of the network: a memory keeps
them as they are (`attar.memory.company`).
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

if TYPE_CHECKING:
    from attar.nn.network import Documents, Questions

# So many of the commonest words are in everyone's company. Readers are saved without weights for them.
COMMON = 200
# What p, r and ε start from: near where training takes them.
SHARPNESS, MENTIONS, FLOOR = 0.5, 0.0, 0.5


class Company(nn.Module):
    """Scores candidates by their company; ids below `first_word` are names or no words at all.

    >>> company = Company(words=10, first_entity=3, entities=4, common=1)
    >>> company.weigh(torch.tensor([[0, 3, 7, 8, 8]])).gt(0).any(2).tolist()  # padding, a name, a common word, …
    [[False, True, False, True, False]]
    """

    def __init__(self, words: int, first_entity: int, entities: int, common: int | None = None) -> None:
        super().__init__()
        common = COMMON if common is None else common
        self.first_entity, self.last_entity = first_entity, first_entity + entities
        self.first_word = min(self.last_entity + common, words)
        # Words come in the order of their frequency: what is rare tells more.
        rank = torch.arange(words - self.first_word, dtype=torch.float32) + common
        self.words = nn.Parameter(torch.log1p(rank) / 8)
        self.sharpness = nn.Parameter(torch.full((2,), SHARPNESS))  # p and p'
        self.mentions = nn.Parameter(torch.tensor(MENTIONS))
        self.floor = nn.Parameter(torch.full((2,), FLOOR).expm1().log())

    def weigh(self, ids: Int[Tensor, "Q l"]) -> Float[Tensor, "Q l 2"]:
        """What each token weighs as a word, ω, and as a name, 1.

        Nothing for padding, for common words, and for what the question has had before.
        """
        ids = ids.long()
        word, name = ids >= self.first_word, (ids >= self.first_entity) & (ids < self.last_entity)
        # Not by brackets, whose gradient a GPU sorts and adds up one by one.
        place = (ids - self.first_word).clamp(min=0)
        weights_of = torch.relu(self.words) if len(self.words) else self.words.new_zeros(1)
        of_word = weights_of.index_select(0, place.flatten()).view(ids.shape)
        weights = torch.stack([torch.where(word, of_word, 0.0), name.to(self.words.dtype)], -1)
        return weights.masked_fill(repeated(ids)[:, :, None], 0.0)

    def forward(self, near: Float[Tensor, "Q c 2"], mentions: Float[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """What is added to the candidates' scores, given a and b, and how often each is mentioned."""
        found = torch.log(near + nn.functional.softplus(self.floor)) @ self.sharpness
        return found - self.mentions * torch.log(mentions.clamp(min=1))

    def score(self, documents: "Documents", questions: "Questions") -> Float[Tensor, "Q c"]:
        """What is added to the scores of questions' candidates, counted from the documents' own tokens."""
        ids, about = documents.ids, questions.documents
        with torch.no_grad():
            # Where the ends lie on the CPU, counting sentences makes no GPU wait.
            most = int(documents.sentence_ends.sum(1).max()) + 1 if len(ids) else 0
            names, ends = (
                each.to(ids.device, non_blocking=True) for each in (documents.names, documents.sentence_ends)
            )
            sentence = ends.cumsum(1) - ends.long()
            names = within(names, documents.lengths, -1)
            mentioned = mentions_in_sentences(names, sentence, documents.candidates.shape[1], most)
            asked = within(questions.ids, questions.lengths, 0)
            times = count_company(within(ids, documents.lengths, 0), sentence, mentioned, asked, about)
        near = torch.log1p(times).to(self.words.dtype) @ self.weigh(asked)
        added: Tensor = self(near, mentioned.sum(2)[about])
        return added


def within(ids: Int[Tensor, "B n"], lengths: Int[Tensor, " B"], padding: int) -> Int[Tensor, "B n"]:
    """The ids, with what lies behind each row's length made padding."""
    place = torch.arange(ids.shape[1], device=ids.device)
    return ids.masked_fill(place >= lengths.to(ids.device, non_blocking=True)[:, None], padding)


def repeated(ids: Int[Tensor, "Q l"]) -> Bool[Tensor, "Q l"]:
    """True where a row has had the id before.

    >>> repeated(torch.tensor([[5, 7, 5, 5]])).tolist()
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
    # What is no name counts in a place of its own, behind all others.
    place = torch.where(names < 0, count * most, names.long() * most + sentence)
    mentioned = torch.zeros(len(names), count * most + 1, device=names.device)
    mentioned.scatter_add_(1, place, mentioned.new_ones(()).expand(place.shape))
    return mentioned[:, :-1].reshape(len(names), count, most)


def count_company(
    ids: Int[Tensor, "B n"],
    sentence: Int[Tensor, "B n"],
    mentioned: Float[Tensor, "B c s"],
    asked: Int[Tensor, "Q l"],
    documents: Int[Tensor, " Q"],
) -> Float[Tensor, "Q c l"]:
    """How many mentions of each candidate have each of the question's tokens in their sentence."""
    # Padding has the id 0 on both sides, and is no token.
    found = (asked[:, :, None] == ids[documents][:, None, :]) & (asked > 0)[:, :, None]
    into = sentence[documents][:, None].expand_as(found)
    present = mentioned.new_zeros(*asked.shape, mentioned.shape[2])
    present = present.scatter_add_(2, into, found.to(present.dtype)).clamp_(max=1)
    return torch.bmm(mentioned[documents], present.mT)
