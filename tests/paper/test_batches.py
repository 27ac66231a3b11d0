"""Drawn questions are answerable from what is left; every epoch has each document once, whoever makes the batches."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attar.paper.batches import Batch, ClozeBatches, QuestionDrawer, load_in_background
from attar.paper.cloze import ClozeDocument
from attar.paper.sets import EncodedSplit, encode_split
from attar.paper.words import FIRST_ENTITY, PLACEHOLDER, Vocabulary

from .cloze_documents import FEW_WORDS, documents


def check_drawn(sentences: list[list[int]], chosen: dict[int, int], count: int) -> None:
    """The rule, in plain Python: what was chosen may be asked, and nothing more could have been."""
    room = min(count, max(1, len(sentences) // 4))
    left = Counter(name for at, sentence in enumerate(sentences) if at not in chosen for name in sentence)
    answers = {sentences[at][blank] for at, blank in chosen.items()}
    assert len(chosen) <= room
    for at, blank in chosen.items():
        assert 6 <= len(sentences[at]) <= 80
        assert sentences[at][blank] >= 0
        assert sentences[at].count(sentences[at][blank]) == 1
    assert all(left[answer] > 0 for answer in answers)
    for at, sentence in enumerate(sentences):
        if len(chosen) < room and at not in chosen and 6 <= len(sentence) <= 80:
            blocked = any(left[name] <= sentence.count(name) for name in answers.intersection(sentence))
            blanks = [n for n in sentence if n >= 0 and sentence.count(n) == 1 and left[n] > 1]
            assert blocked or not blanks, f"sentence {at} could be asked too"


class TestDrawing:
    @given(st.lists(documents, max_size=4), st.integers(0, 99), st.integers(1, 6))
    def test_obeys_the_rule(self, written: list[ClozeDocument], seed: int, count: int) -> None:
        split = encode_split(written, FEW_WORDS)
        drawn = QuestionDrawer(split).draw(np.random.default_rng(seed), count)
        for d in range(len(split)):
            first, last = split.document_sentences[d : d + 2]
            rows = pairwise(split.sentence_starts[first : last + 1])
            own = (first <= drawn.sentences) & (drawn.sentences < last)
            places = drawn.blanks[own] - split.sentence_starts[drawn.sentences[own]]
            chosen = dict(zip((drawn.sentences[own] - first).tolist(), places.tolist(), strict=True))
            check_drawn([split.names[start:stop].tolist() for start, stop in rows], chosen, count)
        assert (np.diff(drawn.sentences) > 0).all()


DOCUMENTS = 23
NAMES = 12
# Every sentence of a document begins with a word of its own, so that it is known wherever it comes out.
WORDS = Vocabulary((*(f"mark{n}" for n in range(60)), "met", "in", "the", "."), entities=NAMES)


def document(number: int) -> ClozeDocument:
    """A document of 3 to 29 sentences with seven names, numbered at random, and its questions."""
    rng = np.random.default_rng(number)
    numbers = rng.permutation(NAMES)[:7]

    def token() -> str:
        return (
            f"@entity{rng.choice(numbers)}" if rng.random() < 0.25 else str(rng.choice(["met", "in", "the"]))
        )

    sentences = [
        " ".join([f"mark{n}", *(token() for _ in range(rng.integers(4, 11))), "."])
        for n in range(rng.integers(3, 30))
    ]
    return ClozeDocument(str(number), "", sentences, [], [])


DRAWN = [document(number) for number in range(DOCUMENTS)]


@pytest.fixture(scope="module")
def split() -> EncodedSplit:
    return encode_split(DRAWN, WORDS)


def drawing(split: EncodedSplit, *, epoch: int = 0, seed: int = 0) -> ClozeBatches:
    batches = ClozeBatches(split, size=4, shuffle=True, draw=3, seed=seed)
    batches.epoch = epoch
    return batches


def in_tokens(ids: Iterable[int]) -> list[str]:
    first_word = FIRST_ENTITY + NAMES
    return [
        "@placeholder"
        if number == PLACEHOLDER
        else f"@entity{number - FIRST_ENTITY}"
        if number < first_word
        else WORDS.words[number - first_word]
        for number in ids
    ]


def tokens_of(batch: Batch, row: int) -> list[str]:
    """A document of a batch in tokens, under the batch's own numbers of its names."""
    return in_tokens(batch.documents.ids[row, : batch.documents.lengths[row]].tolist())


def questions_of(batch: Batch, row: int) -> list[list[str]]:
    """A document's questions, each with its blank filled in by its answer."""
    found = []
    for q in (batch.questions.documents == row).nonzero()[:, 0].tolist():
        asked = in_tokens(batch.questions.ids[q, : batch.questions.lengths[q]].tolist())
        (blank,) = [at for at, token in enumerate(asked) if token == "@placeholder"]
        answer = f"@entity{batch.documents.candidates[row, batch.answers[q]]}"
        found.append([*asked[:blank], answer, *asked[blank + 1 :]])
    return found


def seen(batches: Iterable[Batch]) -> list[tuple[list[int], list[list[int]]]]:
    return [(batch.indices.tolist(), batch.questions.ids.tolist()) for batch in batches]


class TestDrawnBatches:
    def test_a_document_and_its_questions_are_its_original_sentences_with_names_renumbered(
        self, split
    ) -> None:
        for batch in drawing(split):
            for row, index in enumerate(batch.indices.tolist()):
                kept = [f"mark{part}".split() for part in " ".join(tokens_of(batch, row)).split("mark")[1:]]
                asked = questions_of(batch, row)
                original = {tokens[0]: tokens for tokens in map(str.split, DRAWN[index].sentences)}
                assert sorted(found[0] for found in kept + asked) == sorted(original)
                renamed: dict[str, str] = {}
                for found in kept + asked:
                    for token, other in zip(found, original[found[0]], strict=True):
                        assert renamed.setdefault(token, other) == other
                        assert token == other or (token[:7], other[:7]) == ("@entity", "@entity")
                assert len(set(renamed.values())) == len(renamed)

    def test_seed_and_epoch_determine_the_batches(self, split) -> None:
        assert seen(drawing(split, epoch=2)) == seen(drawing(split, epoch=2))
        for changed in ({"epoch": 3}, {"seed": 1}):
            assert seen(drawing(split, epoch=2)) != seen(drawing(split, **{"epoch": 2} | changed))


@pytest.mark.parametrize("workers", [0, 2])
def test_one_epoch_follows_another_whoever_prepares_it(split, workers: int) -> None:
    expected = [seen(drawing(split, epoch=epoch)) for epoch in (3, 4, 5)]
    torch.manual_seed(7)
    loader = load_in_background(drawing(split, epoch=3), workers)
    assert [seen(loader) for _ in range(3)] == expected
    after = torch.rand(1)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(1), after)  # nothing was drawn from the caller's generator
