"""Several sets are one: documents one behind the other, epochs one after the other, no malformed files."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from attar.cloze import ClozeDocument, EncodedSplit, Question, encode_split
from attar.errors import FormatError
from attar.text.vocabulary import Vocabulary
from attar.training.batches import Batch, ClozeBatches
from attar.training.data import EpochStream, join, leave_out, need_splits, open_splits
from attar.training.words import vocabulary_of

WORDS = Vocabulary(("met", "left", "."), entities=9)
WORDS_OF_STORIES = Vocabulary(("married", "."), entities=16)

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


class TestSplitsThatAreMissing:
    def test_are_named(self, make_set: MakeSet) -> None:
        with pytest.raises(
            FormatError, match=r"a test split, got training and validation only; .* from more texts"
        ):
            need_splits([make_set(training=2, validation=2)], ("training", "test"))

    def test_are_missed_by_nobody_who_does_not_need_them(self, stories_set: Path) -> None:
        need_splits([stories_set], ("training", "validation"))


class TestMalformedFiles:
    @pytest.fixture
    def malformed(self, cnn_set: Path) -> Path:
        (cnn_set / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        return cnn_set

    def test_are_refused_with_name_and_line(self, malformed: Path) -> None:
        with pytest.raises(FormatError, match=r"bad\.question, line 3: expected five blocks"):
            open_splits([malformed], "training", WORDS_OF_STORIES)

    def test_are_left_out_where_that_is_asked_for(self, malformed: Path) -> None:
        left_out: list[FormatError] = []
        split = open_splits([malformed], "training", WORDS_OF_STORIES, skip=left_out.append)
        assert len(split) == 12
        assert len(left_out) == 1

    def test_are_refused_again_by_those_who_do_not_ask(self, malformed: Path) -> None:
        open_splits([malformed], "training", WORDS_OF_STORIES, skip=lambda fault: None)
        with pytest.raises(FormatError, match=r"bad\.question, line 3"):
            open_splits([malformed], "training", WORDS_OF_STORIES)

    def test_are_told_of(self, caplog: pytest.LogCaptureFixture) -> None:
        leave_out(FormatError("bad.question, line 3", "five blocks", "2"))
        assert caplog.messages == ["attar: left out bad.question, line 3: expected five blocks, got 2"]


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

    @pytest.mark.parametrize("workers", [0, 1, 2])  # three batches an epoch: turns go on past its end
    def test_gives_one_epoch_after_the_other(self, batches: ClozeBatches, workers: int) -> None:
        expected = [self.epoch_of(batches, epoch) for epoch in (0, 1, 2)]
        stream = EpochStream(batches, workers=workers)
        assert len(stream) == 3
        assert [self.seen(list(stream)) for _ in range(3)] == expected
        stream.close()

    def test_begins_where_it_is_told(self, batches: ClozeBatches) -> None:
        expected = self.epoch_of(batches, 7)
        assert self.seen(list(EpochStream(batches, epoch=lambda: 7, workers=0))) == expected
