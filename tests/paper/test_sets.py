"""Sets find their splits; flat arrays hold their documents; what is computed from them is cached and never stale."""

from pathlib import Path

import pytest

from attar.errors import FormatError
from attar.paper.cloze import ClozeDocument, document_writer
from attar.paper.sets import ClozeSet, encode_split
from attar.paper.words import Vocabulary

from .cloze_documents import FEW_WORDS
from .conftest import MakeSet, story_words


class TestArrays:
    def test_too_many_names_are_refused(self) -> None:
        many = ClozeDocument("b", "", [" ".join(f"@entity{n}" for n in range(9))], [], [])
        with pytest.raises(FormatError, match="b: expected at most 8 names, got 9"):
            encode_split([many], FEW_WORDS)


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
        with document_writer(folder / "training.parquet") as write:
            write(ClozeDocument("a", "", [" ".join(words)], [], []))

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
        file.write_bytes(file.read_bytes()[:-9])
        assert self.ids(tmp_path) == first
        file.unlink()
        (tmp_path / "encoded").rmdir()
        (tmp_path / "encoded").write_text("a file where the folder would be")
        assert self.ids(tmp_path) == first
        assert "house" in ClozeSet.open(tmp_path).vocabulary().words
