"""Sets share one vocabulary: their own, or one that is counted once and kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attar.cloze import VOCABULARY_FILE, ClozeDocument, Question, open_split, write_folder
from attar.errors import FormatError
from attar.text.vocabulary import ENTITIES, Vocabulary
from attar.training import words
from attar.training.words import vocabulary_of

MakeSet = Callable[..., Path]


def told(names: dict[int, str], *sentences: str, asked: str, answer: int) -> ClozeDocument:
    questions = [Question(tuple(asked.split()), answer)]
    return ClozeDocument("url", "", [sentence.split() for sentence in sentences], names, questions)


@pytest.fixture
def counted_set(tmp_path: Path) -> Path:
    document = told({0: "Ann", 1: "Bob"}, "@entity1 met @entity0 .", asked="@placeholder slept", answer=1)
    write_folder(iter([document]), tmp_path / "questions" / "training")
    return tmp_path


@pytest.fixture
def nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From where it is called on."""

    def forbid(*_: object) -> Vocabulary:
        raise AssertionError("words are counted")

    return lambda: monkeypatch.setattr(words.Vocabulary, "build", forbid)


class TestOwn:
    def test_is_the_sets_own(self, stories_set: Path) -> None:
        assert vocabulary_of([stories_set]) == Vocabulary.load(stories_set / VOCABULARY_FILE)

    def test_of_sets_that_share_one_is_that_one(self, stories_set: Path, make_set: MakeSet) -> None:
        other, bare = make_set(training=2, validation=2), make_set(training=2, validation=2, vocabulary=False)
        assert vocabulary_of([bare, other, stories_set]) == vocabulary_of([stories_set])

    def test_of_sets_that_share_none_is_refused(self, stories_set: Path, make_set: MakeSet) -> None:
        other = make_set(training=2, validation=2, vocabulary=False)
        Vocabulary(("met",), entities=9).save(other / VOCABULARY_FILE)
        with pytest.raises(FormatError, match="expected sets of one vocabulary, got 2 vocabularies; build"):
            vocabulary_of([stories_set, other])


class TestCounted:
    def test_holds_the_words_of_texts_and_questions(self, counted_set: Path) -> None:
        assert set(vocabulary_of([counted_set]).words) == {"met", ".", "slept"}

    def test_holds_the_words_of_all_sets(self, counted_set: Path, make_set: MakeSet) -> None:
        stories = make_set(training=4, validation=2, vocabulary=False)
        both = set(vocabulary_of([counted_set, stories]).words)
        assert both > {"met", "slept"}
        assert both > set(vocabulary_of([stories]).words)

    def test_has_room_for_the_highest_name(self, tmp_path: Path) -> None:
        document = told({900: "Ann"}, "@entity900 met .", asked="@placeholder slept", answer=900)
        write_folder(iter([document]), tmp_path / "training")
        assert vocabulary_of([tmp_path]).entities == 901

    def test_has_room_for_as_many_names_as_others(self, counted_set: Path) -> None:
        assert vocabulary_of([counted_set]).entities == ENTITIES

    @pytest.mark.parametrize("kind", ["questions", "parquet"])
    def test_is_counted_once(
        self, counted_set: Path, make_set: MakeSet, nothing_is_counted: Callable[[], None], kind: str
    ) -> None:
        data = counted_set if kind == "questions" else make_set(training=2, validation=2, vocabulary=False)
        first = vocabulary_of([data])
        nothing_is_counted()
        assert vocabulary_of([data]) == first == Vocabulary.load(data / "encoded" / "tokenizer.json")

    def test_is_counted_again_after_a_change(self, counted_set: Path) -> None:
        vocabulary_of([counted_set])
        more = told({0: "Cy"}, "@entity0 laughed .", asked="@placeholder left", answer=0)
        write_folder(iter([more]), counted_set / "questions" / "training")
        assert {"laughed", "left"} < set(vocabulary_of([counted_set]).words)

    def test_is_counted_again_beside_another_set(self, counted_set: Path, make_set: MakeSet) -> None:
        alone = vocabulary_of([counted_set])
        stories = make_set(training=2, validation=2, vocabulary=False)
        assert vocabulary_of([counted_set, stories]) != alone

    @pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer.note"])
    def test_is_counted_again_if_what_was_kept_is_damaged(self, counted_set: Path, file: str) -> None:
        first = vocabulary_of([counted_set])
        (counted_set / "encoded" / file).write_bytes(b"\xff")
        assert vocabulary_of([counted_set]) == first

    def test_of_another_set_is_not_taken_for_its_own(self, counted_set: Path) -> None:
        first = vocabulary_of([counted_set])
        Vocabulary(("others",)).save(counted_set / "encoded" / "tokenizer.json")
        assert vocabulary_of([counted_set]) == first

    def test_needs_no_folder_to_write_to(self, counted_set: Path) -> None:
        (counted_set / "encoded").write_text("a file where the folder would be")
        assert "met" in vocabulary_of([counted_set]).words


class TestMalformedFiles:
    @pytest.fixture
    def malformed(self, counted_set: Path) -> Path:
        (counted_set / "questions" / "training" / "bad.question").write_text("oops")
        return counted_set

    def test_are_refused_with_name_and_line(self, malformed: Path) -> None:
        with pytest.raises(FormatError, match=r"bad\.question, line 1"):
            vocabulary_of([malformed])

    def test_are_left_out_where_that_is_asked_for(self, malformed: Path) -> None:
        left_out: list[FormatError] = []
        vocabulary = vocabulary_of([malformed], skip=left_out.append)
        assert "met" in vocabulary.words
        # A run tells of each once, when it opens the split.
        assert not left_out
        open_split(malformed, "training", vocabulary, on_malformed=left_out.append)
        assert len(left_out) == 1

    def test_are_refused_again_by_those_who_do_not_ask(self, malformed: Path) -> None:
        vocabulary_of([malformed], skip=lambda fault: None)
        with pytest.raises(FormatError, match=r"bad\.question, line 1"):
            vocabulary_of([malformed])
