"""Sets find their splits; what is computed from them is cached and never stale."""

from pathlib import Path

import pytest

from attar.errors import FormatError
from attar.paper.cloze import ClozeDocument, DocumentWriter, Question
from attar.paper.sets import ClozeSet
from attar.paper.vocabulary import Vocabulary
from benchmarks.question_files import write_folder

from .conftest import MakeSet, story_words

WORDS = Vocabulary(("met", "house", "in", "the"), entities=16)


def test_a_missing_folder_set_or_split_is_refused(make_set: MakeSet, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no folder"):
        ClozeSet.open(tmp_path / "none")
    with pytest.raises(
        FormatError, match=r"has neither training\.parquet nor .*; build a set with attar paper"
    ):
        ClozeSet.open(tmp_path)
    with pytest.raises(FormatError, match="has no test split, only training and validation; build"):
        ClozeSet.open(make_set(training=2, validation=2)).check_splits("training", "test")


class TestEncoded:
    @staticmethod
    def write(folder: Path, *words: str) -> None:
        with DocumentWriter(folder / "training.parquet") as writer:
            writer.write(ClozeDocument("a", "", [list(words)], {}))

    @staticmethod
    def ids(folder: Path, words: Vocabulary = WORDS) -> list[int]:
        return ClozeSet.open(folder).encoded("training", words).ids.tolist()

    def test_once_per_vocabulary_and_again_after_a_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(tmp_path, "the", "house", "in", "met")
        first = self.ids(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr("attar.paper.sets.encode_split", None)
            assert self.ids(tmp_path) == first
        assert self.ids(tmp_path, story_words()) != first
        self.write(tmp_path, "met", "house", "in", "the")  # as many bytes
        assert self.ids(tmp_path) == [first[3], first[1], first[2], first[0]]

    def test_a_damaged_cache_and_a_read_only_folder_are_no_obstacle(self, tmp_path: Path) -> None:
        self.write(tmp_path, "the", "house")
        first = self.ids(tmp_path)
        (file,) = (tmp_path / "encoded").iterdir()
        file.write_bytes(b"\x10\0\0\0\0\0\0\0not json at all.")
        assert self.ids(tmp_path) == first
        file.unlink()
        (tmp_path / "encoded").rmdir()
        (tmp_path / "encoded").write_text("a file where the folder would be")
        assert self.ids(tmp_path) == first
        assert "house" in ClozeSet.open(tmp_path).vocabulary().words

    def test_malformed_files_that_were_skipped_are_refused_without_skipping(self, cnn_set: Path) -> None:
        (cnn_set / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        skipping, refusing = (ClozeSet.open(cnn_set, skip_malformed=skip) for skip in (True, False))
        assert len(skipping.encoded("training", skipping.vocabulary())) == 4
        for refused in (refusing.vocabulary, lambda: refusing.encoded("training", WORDS)):
            with pytest.raises(FormatError, match=r"bad\.question, line 3: expected five blocks"):
                refused()


class TestVocabulary:
    def test_is_the_own_one_of_a_built_set(self, stories_set: Path) -> None:
        assert ClozeSet.open(stories_set).vocabulary() == story_words()

    @pytest.fixture
    def bare_set(self, tmp_path: Path) -> ClozeSet:
        asked = [Question(("@placeholder", "slept"), 900)]
        document = ClozeDocument("a", "", [["@entity900", "met", "."]], {900: "Ann"}, asked)
        write_folder([document], tmp_path / "questions" / "training")
        return ClozeSet.open(tmp_path)

    def test_has_the_words_of_texts_and_questions_and_the_highest_name(self, bare_set: ClozeSet) -> None:
        built = bare_set.vocabulary()
        assert (set(built.words), built.entities) == ({"met", ".", "slept"}, 901)

    def test_is_built_once_and_again_after_a_change_or_damage(
        self, bare_set: ClozeSet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = bare_set.vocabulary()
        with monkeypatch.context() as patch:
            patch.setattr(Vocabulary, "build", None)
            assert bare_set.vocabulary() == first
        (file,) = (bare_set.path / "encoded").iterdir()
        file.write_bytes(b"\xff")
        assert bare_set.vocabulary() == first
        more = ClozeDocument("b", "", [["@entity1", "laughed"]], {1: "Cy"}, [Question(("@placeholder",), 1)])
        write_folder([more], bare_set.path / "questions" / "training")
        assert "laughed" in bare_set.vocabulary().words
