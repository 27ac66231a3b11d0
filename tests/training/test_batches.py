"""Batches contain the documents that went in, once per epoch, and survive packing."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attar.cloze.documents import ClozeDocument, Question
from attar.cloze.encoded import EncodedSplit, encode_split
from attar.text.vocabulary import Vocabulary
from attar.training.batches import _ALIGNMENT, Batch, ClozeBatches, _shuffled_numbers, pack, unpack
from attar.training.data import open_splits, shared_vocabulary

DOCUMENTS, NAMES, MARKS = 23, 7, 60
# Every sentence of a document begins with a word of its own, so that it is known wherever it comes out.
VOCABULARY_FILE = Vocabulary((*(f"mark{n}" for n in range(MARKS)), "met", "in", "the", "."), entities=12)


def document(number: int) -> ClozeDocument:
    """A document of 3 to 29 sentences with a few names; its own numbers for them are no 0, 1 and 2."""
    rng = np.random.default_rng(number)
    numbers = rng.permutation(12)[:NAMES]

    def token() -> str:
        return (
            f"@entity{rng.choice(numbers)}" if rng.random() < 0.25 else str(rng.choice(["met", "in", "the"]))
        )

    sentences = [
        [f"mark{n}", *(token() for _ in range(rng.integers(4, 11))), "."] for n in range(rng.integers(3, 30))
    ]
    return ClozeDocument(str(number), "", sentences, {})


def with_questions(number: int) -> ClozeDocument:
    """The same with two questions of its own, or none."""
    plain = document(number)
    names = [int(token[7:]) for row in plain.sentences for token in row if token.startswith("@entity")]
    if len(set(names)) > 1 and number % 5:
        asked = ("@placeholder", "met", f"@entity{names[0]}", "."), ("in", "the", "@placeholder")
        plain.questions = [
            Question(asked[0], next(n for n in names if n != names[0])),
            Question(asked[1], names[0]),
        ]
    return plain


DRAWN = [document(number) for number in range(DOCUMENTS)]
FIXED = [with_questions(number) for number in range(DOCUMENTS)]


@pytest.fixture(scope="module")
def split() -> EncodedSplit:
    return encode_split(DRAWN, VOCABULARY_FILE)


@pytest.fixture(scope="module")
def asked_split() -> EncodedSplit:
    return encode_split(FIXED, VOCABULARY_FILE)


def drawing(split: EncodedSplit, *, epoch: int = 0, **options: int) -> ClozeBatches:
    batches = ClozeBatches(split, VOCABULARY_FILE, **{"size": 4, "draw": 3} | options)
    batches.epoch = epoch
    return batches


def tensors(batch: Batch) -> Iterator[torch.Tensor]:
    for part in (batch.documents, batch.questions, batch):
        yield from (v for v in (getattr(part, f.name) for f in fields(part)) if isinstance(v, torch.Tensor))


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def sentences_of(batch: Batch, row: int) -> list[list[str]]:
    """A document of a batch in tokens, under the batch's own numbers of its names."""
    ids = batch.documents.ids[row, : batch.documents.lengths[row]].tolist()
    ends = batch.documents.sentence_ends[row, : len(ids)].tolist()
    found: list[list[str]] = [[]]
    for token, last in zip(VOCABULARY_FILE.decode(ids), ends, strict=True):
        found[-1].append(token)
        if last:
            found.append([])
    assert found.pop() == []
    return found


def questions_of(batch: Batch, row: int) -> list[tuple[list[str], list[str]]]:
    """A document's questions, and each with its blank filled in by its answer."""
    found = []
    for q in (batch.questions.documents == row).nonzero()[:, 0].tolist():
        asked = VOCABULARY_FILE.decode(batch.questions.ids[q, : batch.questions.lengths[q]].tolist())
        blank = int(batch.questions.blanks[q])
        assert [at for at, token in enumerate(asked) if token == "@placeholder"] == [blank]
        answer = f"@entity{batch.documents.candidates[row, batch.answers[q]]}"
        found.append((asked, [*asked[:blank], answer, *asked[blank + 1 :]]))
    return found


def renaming(pairs: Iterator[tuple[list[str], list[str]]]) -> dict[str, str]:
    """The one renaming of names that turns each first row into its second; nothing but names is renamed."""
    renamed: dict[str, str] = {}
    for row, original in pairs:
        for token, other in zip(row, original, strict=True):
            assert renamed.setdefault(token, other) == other
            assert token == other or (token.startswith("@entity") and other.startswith("@entity"))
    assert len(set(renamed.values())) == len(renamed)
    return renamed


class TestDrawing:
    def test_a_document_and_its_questions_are_its_original_sentences(self, split: EncodedSplit) -> None:
        for batch in drawing(split):
            for row, index in enumerate(batch.indices.tolist()):
                kept = sentences_of(batch, row)
                asked = [filled for _, filled in questions_of(batch, row)]
                original = {sentence[0]: sentence for sentence in DRAWN[index].sentences}
                assert sorted(found[0] for found in kept + asked) == sorted(original)
                assert [found[0] for found in kept] == [
                    mark for mark in original if mark not in {found[0] for found in asked}
                ]
                renaming((found, original[found[0]]) for found in kept + asked)

    def test_a_name_has_one_number_in_document_candidates_and_question(self, split: EncodedSplit) -> None:
        for batch in drawing(split):
            documents, questions = batch.documents, batch.questions
            named = documents.names >= 0
            rows = named.nonzero()[:, 0]
            numbers = documents.candidates[rows, documents.names[named].long()]
            assert (numbers >= 0).all()
            assert torch.equal(documents.ids[named], numbers + VOCABULARY_FILE.first_entity)
            for q, row in enumerate(questions.documents.tolist()):
                ids = set((questions.ids[q] - VOCABULARY_FILE.first_entity).tolist())
                held = [bool(n >= 0) and n in ids for n in documents.candidates[row].tolist()]
                assert (questions.asked[q] & (documents.candidates[row] >= 0)).tolist() == held

    def test_candidates_are_the_names_in_the_kept_text(self, split: EncodedSplit) -> None:
        lost = 0
        for batch in drawing(split):
            for row in range(len(batch.indices)):
                tokens = [token for sentence in sentences_of(batch, row) for token in sentence]
                candidates = [n for n in batch.documents.candidates[row].tolist() if n >= 0]
                assert sorted(f"@entity{n}" for n in candidates) == sorted(
                    {token for token in tokens if token.startswith("@entity")}
                )
                counts = batch.counts[row][batch.documents.candidates[row] >= 0].tolist()
                assert counts == [tokens.count(f"@entity{n}") for n in candidates]
                whole = split.name_starts[batch.indices[row] + 1] - split.name_starts[batch.indices[row]]
                lost += int(whole) - len(candidates)
        assert lost > 0, "no name was held out altogether: the test shows nothing"

    def test_every_answer_is_a_candidate_that_its_question_does_not_mention(
        self, split: EncodedSplit
    ) -> None:
        for batch in drawing(split):
            of_question = batch.documents.candidates[batch.questions.documents]
            assert (of_question.gather(1, batch.answers[:, None]) >= 0).all()
            assert not batch.questions.asked.gather(1, batch.answers[:, None]).any()

    def test_names_are_renumbered_by_the_generator(self, split: EncodedSplit) -> None:
        rngs = [np.random.default_rng(seed) for seed in (0, 0, 1)]
        one, again, other = (_shuffled_numbers(split, rng) for rng in rngs)
        assert one.tolist() == again.tolist() != other.tolist()
        for first, last in zip(split.name_starts[:-1], split.name_starts[1:], strict=True):
            assert sorted(one[first:last]) == list(range(last - first))

    def test_the_same_seed_and_epoch_give_the_same_batches(self, split: EncodedSplit) -> None:
        one = drawing(split, epoch=2)
        for again in (one, drawing(split, epoch=2)):
            assert all(same(a, b) for a, b in zip(one, again, strict=True))

    @pytest.mark.parametrize("changed", [{"epoch": 3}, {"seed": 1}], ids=["epoch", "seed"])
    def test_another_epoch_or_seed_gives_other_questions(
        self, split: EncodedSplit, changed: dict[str, int]
    ) -> None:
        def marks(batches: ClozeBatches) -> set[tuple[int, str]]:
            return {
                (index, asked[0])
                for batch in batches
                for row, index in enumerate(batch.indices.tolist())
                for asked, _ in questions_of(batch, row)
            }

        assert marks(drawing(split, epoch=2)) != marks(drawing(split, **{"epoch": 2} | changed))

    def test_kept_and_asked_tokens_add_up_to_the_split(self, split: EncodedSplit) -> None:
        batches = drawing(split)
        kept = sum(int(batch.documents.lengths.sum()) for batch in batches)
        asked = sum(int(batch.questions.lengths.sum()) for batch in batches)
        assert kept + asked == len(split.ids)


class TestFixedQuestions:
    def test_documents_questions_and_answers_keep_their_names(self, asked_split: EncodedSplit) -> None:
        for batch in ClozeBatches(asked_split, VOCABULARY_FILE, size=4):
            for row, index in enumerate(batch.indices.tolist()):
                assert sentences_of(batch, row) == FIXED[index].sentences
                asked = questions_of(batch, row)
                assert [tuple(question) for question, _ in asked] == [
                    q.tokens for q in FIXED[index].questions
                ]
                answers = [filled[question.index("@placeholder")] for question, filled in asked]
                assert answers == [f"@entity{q.answer}" for q in FIXED[index].questions]

    def test_every_epoch_is_the_same(self, asked_split: EncodedSplit) -> None:
        batches = ClozeBatches(asked_split, VOCABULARY_FILE, size=4)
        first = list(batches)
        batches.epoch = 5
        assert all(same(a, b) for a, b in zip(first, batches, strict=True))

    def test_places_number_the_questions_within_each_document(self, asked_split: EncodedSplit) -> None:
        for batch in ClozeBatches(asked_split, VOCABULARY_FILE, size=4):
            most, rows = batch.questions.most, batch.questions.documents.tolist()
            turns = [rows[:at].count(row) for at, row in enumerate(rows)]
            assert batch.questions.places.tolist() == [
                row * most + turn for row, turn in zip(rows, turns, strict=True)
            ]
            assert most == max(map(rows.count, rows), default=1)


@pytest.mark.parametrize("draw", [0, 3], ids=["fixed", "drawn"])
@pytest.mark.parametrize("size", [1, 4, 5, 99])
def test_every_document_comes_once_per_epoch(asked_split: EncodedSplit, size: int, draw: int) -> None:
    batches = ClozeBatches(asked_split, VOCABULARY_FILE, size=size, draw=draw)
    found = [batch.indices.tolist() for batch in batches]
    assert sorted(index for batch in found for index in batch) == list(range(DOCUMENTS))
    assert len(found) == len(batches)
    assert all(len(batch) <= size for batch in found)


def test_documents_of_a_batch_have_similar_lengths() -> None:
    lengths = np.random.default_rng(0).permutation(np.arange(20, 420))
    many = [ClozeDocument("", "", [["the"] * int(n)], {}) for n in lengths]
    split = encode_split(many, VOCABULARY_FILE)
    rng = np.random.default_rng(0)
    sorted_apart = ClozeBatches(split, VOCABULARY_FILE, size=8).buckets(rng, shuffle=False)
    assert [split.lengths[bucket].tolist() for bucket in sorted_apart[:1]] == [list(range(20, 28))]
    shuffled = drawing(split, size=8).buckets(rng, shuffle=True)
    padded = sum(len(bucket) * int(split.lengths[bucket].max()) for bucket in shuffled)
    assert padded < 1.15 * split.lengths.sum()
    firsts = [int(split.lengths[bucket].min()) for bucket in shuffled]
    assert firsts != sorted(firsts), "batches come in a random order"


class TestParts:
    @pytest.mark.parametrize("world", [2, 3, 4])
    def test_processes_share_every_batch(self, split: EncodedSplit, world: int) -> None:
        parts = [drawing(split, rank=rank, world=world) for rank in range(world)]
        for whole, *shared in zip(drawing(split), *parts, strict=True):
            indices = [index for part in shared for index in part.indices.tolist()]
            assert sorted(indices) == sorted(whole.indices.tolist())
            assert sum(len(part.answers) for part in shared) == len(whole.answers)
            for part in shared:
                assert part.share == pytest.approx(len(part.answers) / len(whole.answers))

    def test_a_part_has_the_same_documents_and_questions_as_the_whole(self, split: EncodedSplit) -> None:
        for whole, part in zip(drawing(split), drawing(split, rank=1, world=2), strict=True):
            for row, index in enumerate(part.indices.tolist()):
                in_whole = whole.indices.tolist().index(index)
                assert sentences_of(part, row) == sentences_of(whole, in_whole)
                assert questions_of(part, row) == questions_of(whole, in_whole)

    def test_a_process_may_be_left_without_documents(self, split: EncodedSplit) -> None:
        last = [*ClozeBatches(split, VOCABULARY_FILE, size=22, rank=1, world=2)][-1]
        assert last.documents.ids.shape == (0, 0)
        assert last.questions.ids.shape == (0, 0)
        assert last.share == 0


def test_documents_without_names_or_questions_make_a_batch() -> None:
    plain = [ClozeDocument("", "", [["in", "the", "."]], {}), ClozeDocument("", "", [], {})]
    for draw in (0, 3):
        (batch,) = ClozeBatches(encode_split(plain, VOCABULARY_FILE), VOCABULARY_FILE, draw=draw)
        assert batch.documents.ids.tolist() == [[0, 0, 0], VOCABULARY_FILE.encode(["in", "the", "."])]
        assert batch.documents.candidates.tolist() == [[-1], [-1]]
        assert len(batch.answers) == 0


def test_moving_a_batch_keeps_lengths_on_the_cpu(split: EncodedSplit) -> None:
    batch = next(iter(drawing(split)))
    assert same(batch.to("cpu"), batch)
    assert batch.to("cpu").share == batch.share
    moved = batch.to("meta")
    assert moved.documents.ids.is_meta
    assert moved.questions.ids.is_meta
    assert moved.answers.is_meta
    assert not moved.documents.lengths.is_meta
    assert not moved.questions.lengths.is_meta


@pytest.fixture
def story_batch(stories_set: Path) -> Batch:
    vocabulary = shared_vocabulary([stories_set])
    split = open_splits([stories_set], "training", vocabulary)
    return next(iter(ClozeBatches(split, vocabulary, size=7, draw=3)))


def assert_same(one: Any, other: Any) -> None:
    for field in fields(one):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        if is_dataclass(mine):
            assert_same(mine, its)
        elif isinstance(mine, torch.Tensor):
            assert mine.dtype == its.dtype
            assert torch.equal(mine, its), field.name
        else:
            assert mine == its


def test_unpacking_gives_the_packed_batch(story_batch: Batch) -> None:
    assert_same(unpack(pack(story_batch)), story_batch)


def test_a_packed_batch_is_one_aligned_tensor_in_shared_memory(story_batch: Batch) -> None:
    packed = pack(story_batch)
    assert packed.bytes.is_shared()
    assert packed.bytes.dtype == torch.uint8
    found = unpack(packed)
    assert found.documents.ids.untyped_storage().data_ptr() == packed.bytes.untyped_storage().data_ptr()
    assert all(
        part.data_ptr() % _ALIGNMENT == 0 for part in (found.questions.ids, found.counts, found.indices)
    )
