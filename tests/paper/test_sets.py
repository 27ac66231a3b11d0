"""Sets share a vocabulary, are joined, and what is computed from them is cached and never stale."""

from pathlib import Path

import pytest

from attar.errors import FormatError
from attar.paper.cloze import ClozeDocument, DocumentWriter, Question
from attar.paper.sets import ClozeSet, check_splits, open_splits, shared_vocabulary
from attar.paper.vocabulary import Vocabulary
from benchmarks.question_files import write_folder

from .conftest import MakeSet, story_words

WORDS = Vocabulary(("met", "house", "in", "the"), entities=16)


def test_several_sets_are_joined(stories_set: Path, make_set: MakeSet) -> None:
    other = make_set(seed=2, training=5, validation=3)
    vocabulary = shared_vocabulary([stories_set, other])
    both, alone = (open_splits(data, "training", vocabulary) for data in ([stories_set, other], [other]))
    assert len(both) == 29
    assert both.lengths[24:].tolist() == alone.lengths.tolist()


def test_a_missing_folder_set_or_split_is_refused(make_set: MakeSet, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no folder"):
        ClozeSet.open(tmp_path / "none")
    with pytest.raises(
        FormatError, match=r"has neither training\.parquet nor .*; build a set with attar paper"
    ):
        ClozeSet.open(tmp_path)
    with pytest.raises(FormatError, match="has no test split, only training and validation; build"):
        check_splits([make_set(training=2, validation=2)], ("training", "test"))


class TestCache:
    @staticmethod
    def write(folder: Path, *words: str) -> None:
        with DocumentWriter(folder / "training.parquet") as writer:
            writer.write(ClozeDocument("a", "", [list(words)], {}))

    def test_a_split_is_encoded_once_per_vocabulary_and_again_after_a_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(tmp_path, "the", "house", "in", "met")
        first = open_splits([tmp_path], "training", WORDS)
        with monkeypatch.context() as patch:
            patch.setattr("attar.paper.sets.encode_split", None)
            assert open_splits([tmp_path], "training", WORDS).ids.tolist() == first.ids.tolist()
        assert open_splits([tmp_path], "training", story_words()).ids.tolist() != first.ids.tolist()
        self.write(tmp_path, "met", "house", "in", "the")  # as many bytes
        assert open_splits([tmp_path], "training", WORDS).ids.tolist() == first.ids.tolist()[::-1][:1] + (
            first.ids.tolist()[1:3] + first.ids.tolist()[:1]
        )

    def test_a_damaged_cache_and_a_read_only_folder_are_no_obstacle(self, tmp_path: Path) -> None:
        self.write(tmp_path, "the", "house")
        first = open_splits([tmp_path], "training", WORDS)
        (file,) = (tmp_path / "encoded").iterdir()
        file.write_bytes(b"\x10\0\0\0\0\0\0\0not json at all.")
        assert open_splits([tmp_path], "training", WORDS).ids.tolist() == first.ids.tolist()
        file.unlink()
        (tmp_path / "encoded").rmdir()
        (tmp_path / "encoded").write_text("a file where the folder would be")
        assert open_splits([tmp_path], "training", WORDS).ids.tolist() == first.ids.tolist()
        assert "house" in shared_vocabulary([tmp_path]).words

    def test_malformed_files_that_were_skipped_are_refused_without_skipping(self, cnn_set: Path) -> None:
        (cnn_set / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        skipped: list[FormatError] = []
        vocabulary = shared_vocabulary([cnn_set], skip_malformed=True)
        assert len(open_splits([cnn_set], "training", vocabulary, on_malformed=skipped.append)) == 4
        assert len(skipped) == 1
        for refused in (
            lambda: shared_vocabulary([cnn_set]),
            lambda: open_splits([cnn_set], "training", vocabulary),
        ):
            with pytest.raises(FormatError, match=r"bad\.question, line 3: expected five blocks"):
                refused()

    def test_a_set_in_the_cnn_format_is_named_by_its_present_folder(self, cnn_set: Path) -> None:
        assert open_splits([cnn_set], "test", WORDS).sources == ("cnn",)
        assert open_splits([cnn_set.rename(cnn_set.with_name("news"))], "test", WORDS).sources == ("news",)


class TestVocabulary:
    def test_is_that_of_the_sets_which_must_be_one(self, stories_set: Path, make_set: MakeSet) -> None:
        other, bare = make_set(training=2), make_set(vocabulary=None, training=2)
        assert shared_vocabulary([bare, other, stories_set]) == story_words()
        with pytest.raises(FormatError, match="have 2 different vocabularies; build the later sets with"):
            shared_vocabulary([stories_set, make_set(vocabulary=WORDS, training=2)])

    @pytest.fixture
    def bare_set(self, tmp_path: Path) -> Path:
        asked = [Question(("@placeholder", "slept"), 900)]
        document = ClozeDocument("a", "", [["@entity900", "met", "."]], {900: "Ann"}, asked)
        write_folder([document], tmp_path / "questions" / "training")
        return tmp_path

    def test_has_the_words_of_texts_and_questions_and_the_highest_name(self, bare_set: Path) -> None:
        built = shared_vocabulary([bare_set])
        assert (set(built.words), built.entities) == ({"met", ".", "slept"}, 901)

    def test_is_built_once_and_again_after_a_change_or_damage(
        self, bare_set: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = shared_vocabulary([bare_set])
        with monkeypatch.context() as patch:
            patch.setattr(Vocabulary, "build", None)
            assert shared_vocabulary([bare_set]) == first
        (file,) = (bare_set / "encoded").iterdir()
        file.write_bytes(b"\xff")
        assert shared_vocabulary([bare_set]) == first
        more = ClozeDocument("b", "", [["@entity1", "laughed"]], {1: "Cy"}, [Question(("@placeholder",), 1)])
        write_folder([more], bare_set / "questions" / "training")
        assert "laughed" in shared_vocabulary([bare_set]).words
