"""A run's folder is one that can be written to, and one run's at a time."""

import os
from pathlib import Path

import pytest

from attar.errors import AttarError
from attar.training import folders
from attar.training.folders import alone_in, need_writable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    return tmp_path / "file"


class TestWritable:
    def test_is_what_is_not_there_yet_and_it_is_not_made(self, tmp_path: Path) -> None:
        need_writable(tmp_path / "new" / "folder")
        assert not (tmp_path / "new").exists()

    def test_is_a_path_from_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        need_writable(Path("new"))
        need_writable(Path("."))

    @pytest.mark.parametrize("below", ["", "folder", "folder/within"])
    def test_no_file_is_nor_anything_below_it(self, file: Path, below: str) -> None:
        with pytest.raises(AttarError) as refused:
            need_writable(file / below)
        assert str(refused.value) == (
            f"{file / below}: expected a folder to write to, got the file {file}; choose another --out"
        )

    def test_nothing_is_without_the_right_to(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "access", lambda place, how: False)  # root, who may run this, has every right
        with pytest.raises(AttarError, match="which must not be written to; choose another --out"):
            need_writable(tmp_path / "new")


class TestAlone:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let nobody wait for another to be gone."""
        monkeypatch.setattr(folders, "GOING", 0.0)

    def test_a_second_one_is_refused_while_the_first_is_there(self, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        with alone_in(folder), pytest.raises(AttarError, match=r"got another run's; wait for it, end it"):  # noqa: SIM117
            with alone_in(folder):
                raise AssertionError("two are at work")
        with alone_in(folder):
            pass

    def test_others_are_in_other_folders(self, tmp_path: Path) -> None:
        with alone_in(tmp_path / "one"), alone_in(tmp_path / "other"):
            pass

    def test_a_file_cannot_be_had(self, file: Path) -> None:
        with (
            pytest.raises(AttarError, match="expected a folder to write to, got File exists"),
            alone_in(file),
        ):
            pass
