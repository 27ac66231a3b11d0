"""Several sets are one: one vocabulary, documents one behind the other, epochs one after the other."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from attar.errors import FormatError
from attar.text.cloze import ClozeDocument, EncodedSplit, Question, encode_split
from attar.text.cloze.folder_cnn import write_folder
from attar.text.cloze.sets import VOCABULARY
from attar.text.vocabulary import Vocabulary
from attar.training.batches import Batch, ClozeBatches
from attar.training.data import EpochStream, join, open_splits, vocabulary_of

WORDS = Vocabulary(("met", "left", "."), entities=9)

MakeSet = Callable[..., Path]


def document(source: str, *sentences: str, asked: str = "", answer: int = 0) -> ClozeDocument:
    questions = [Question(tuple(asked.split()), answer)] if asked else []
    return ClozeDocument("", source, [sentence.split() for sentence in sentences], {}, questions)


NEWS = [
    document("news", "@entity8 met @entity1 .", "@entity1 left .", asked="@placeholder left .", answer=1),
    document("news", "@entity2 left ."),
]
NOVELS = [
    document("novels", "@entity3 met", "@entity4 .", asked="@placeholder met @entity3", answer=4),
    document("news", "left ."),
]


def assert_equal(one: EncodedSplit, other: EncodedSplit) -> None:
    for each in fields(EncodedSplit):
        np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name), each.name)


@pytest.mark.parametrize(
    "parts",
    [[NEWS, NOVELS], [NOVELS, NEWS], [NEWS, [], NOVELS], [[], NEWS], [NEWS, NEWS, NOVELS]],
    ids=["two", "turned", "with an empty one", "an empty one first", "three"],
)
def test_splits_joined_are_their_documents_encoded_together(parts: list[list[ClozeDocument]]) -> None:
    joined = join([encode_split(part, WORDS) for part in parts])
    assert_equal(joined, encode_split([document for part in parts for document in part], WORDS))


class TestOpening:
    def test_one_set_is_opened_as_it_is(self, stories_set: Path) -> None:
        vocabulary = vocabulary_of([stories_set])
        assert len(open_splits([stories_set], "training", vocabulary)) == 48
        assert len(open_splits([stories_set], "validation", vocabulary)) == 12

    def test_several_sets_are_one(self, stories_set: Path, make_set: MakeSet) -> None:
        other = make_set(training=5, validation=3, seed=2)
        vocabulary = vocabulary_of([stories_set, other])
        both = open_splits([stories_set, other], "training", vocabulary)
        assert len(both) == 53
        alone = open_splits([other], "training", vocabulary)
        assert both.lengths[48:].tolist() == alone.lengths.tolist()
        np.testing.assert_array_equal(both.ids[both.document_starts[48] :], alone.ids)


class TestVocabulary:
    def test_is_the_sets_own(self, stories_set: Path) -> None:
        assert vocabulary_of([stories_set]) == Vocabulary.load(stories_set / VOCABULARY)

    def test_of_sets_that_share_one_is_that_one(self, stories_set: Path, make_set: MakeSet) -> None:
        other, bare = make_set(training=2, validation=2), make_set(training=2, validation=2, vocabulary=False)
        assert vocabulary_of([bare, other, stories_set]) == vocabulary_of([stories_set])

    def test_of_sets_that_share_none_is_refused(self, stories_set: Path, make_set: MakeSet) -> None:
        other = make_set(training=2, validation=2, vocabulary=False)
        WORDS.save(other / VOCABULARY)
        with pytest.raises(FormatError, match="expected sets of one vocabulary, got 2 vocabularies; build"):
            vocabulary_of([stories_set, other])

    def test_of_a_set_without_one_is_counted_from_its_training_texts(self, tmp_path: Path) -> None:
        told = document("", "@entity1 met @entity0 .", asked="@placeholder slept", answer=1)
        told.name, told.names = "url", {0: "Ann", 1: "Bob"}
        write_folder(iter([told]), tmp_path / "questions" / "training")
        assert set(vocabulary_of([tmp_path]).words) == {"met", "."}


class TestEpochStream:
    @pytest.fixture
    def batches(self, stories_set: Path) -> ClozeBatches:
        vocabulary = vocabulary_of([stories_set])
        split = open_splits([stories_set], "training", vocabulary)
        return ClozeBatches(split, vocabulary, size=20, draw=2)

    @staticmethod
    def seen(batches: list[Batch]) -> list[tuple[list[int], list[list[int]]]]:
        return [(batch.indices.tolist(), batch.questions.ids.tolist()) for batch in batches]

    def epoch_of(self, batches: ClozeBatches, epoch: int) -> list[tuple[list[int], list[list[int]]]]:
        batches.epoch = epoch
        return self.seen(list(batches))

    @pytest.mark.parametrize("workers", [0, 1])
    def test_gives_one_epoch_after_the_other(self, batches: ClozeBatches, workers: int) -> None:
        expected = [self.epoch_of(batches, epoch) for epoch in (0, 1, 2)]
        stream = EpochStream(batches, workers=workers)
        assert len(stream) == 3
        assert [self.seen(list(stream)) for _ in range(3)] == expected
        stream.close()

    def test_begins_where_it_is_told(self, batches: ClozeBatches) -> None:
        expected = self.epoch_of(batches, 7)
        assert self.seen(list(EpochStream(batches, epoch=lambda: 7, workers=0))) == expected

    def test_many_workers_give_every_batch_once(self, batches: ClozeBatches) -> None:
        stream = EpochStream(batches, workers=4)
        found = torch.cat([batch.indices for batch in stream])
        assert sorted(found.tolist()) == list(range(48))
        stream.close()
