"""A run's folder is writable and used by one run; its last checkpoint is resumed only if it fits."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attar.errors import AttarError, FormatError
from attar.reader.files import load_reader
from attar.text.vocabulary import Vocabulary
from attar.training import run_folder
from attar.training.fit import train
from attar.training.options import TrainingOptions
from attar.training.run_folder import BEST, LAST, RUN, check_writable, load_checkpoint, lock_folder
from benchmarks.stories import tell_stories

from .conftest import ENTITIES, MakeOptions, MakeSet, PowerCutError, cut_off, history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    return tmp_path / "file"


class TestWritable:
    def test_a_missing_folder_is_accepted_and_not_created(self, tmp_path: Path) -> None:
        check_writable(tmp_path / "new" / "folder")
        assert not (tmp_path / "new").exists()

    def test_relative_paths_are_accepted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        check_writable(Path("new"))
        check_writable(Path("."))

    @pytest.mark.parametrize("below", ["", "folder", "folder/within"])
    def test_a_file_and_paths_below_it_are_refused(self, file: Path, below: str) -> None:
        with pytest.raises(AttarError) as refused:
            check_writable(file / below)
        assert str(refused.value) == (
            f"{file / below}: expected a folder to write to, got the file {file}; choose another --out"
        )

    def test_a_folder_without_permission_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda place, how: False)  # root, who may run this, has every right
        with pytest.raises(AttarError, match="which is not writable; choose another --out"):
            check_writable(tmp_path / "new")


class TestLock:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Do not wait for the lock."""
        monkeypatch.setattr(run_folder, "_LOCK_TIMEOUT", 0.0)

    def test_a_second_run_is_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        with lock_folder(folder), pytest.raises(AttarError, match=r"got one in use; wait for it, stop it"):  # noqa: SIM117
            with lock_folder(folder):
                raise AssertionError("the folder was locked twice")
        with lock_folder(folder):
            pass

    def test_other_folders_are_independent(self, tmp_path: Path) -> None:
        with lock_folder(tmp_path / "one"), lock_folder(tmp_path / "other"):
            pass

    def test_a_file_is_refused(self, file: Path) -> None:
        with (
            pytest.raises(AttarError, match="expected a folder to write to, got File exists"),
            lock_folder(file),
        ):
            pass


def resume(options: TrainingOptions) -> Path:
    return train(options, resume=True, quiet=True)


def change(file: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Write a checkpoint again, as another version or another hand would have."""
    checkpoint = torch.load(file, weights_only=True)
    edit(checkpoint)
    torch.save(checkpoint, file)


class TestRunStoppedEarly:
    def test_is_not_continued(self, options: MakeOptions) -> None:
        stopped = options(lr=1e-12, epochs=9, patience=2)
        reader = load_reader(train(stopped, quiet=True)).fingerprint
        for _ in range(2):
            assert [row["epoch"] for row in history(resume(stopped))] == [1, 2, 3]
        assert load_reader(stopped.folder).fingerprint == reader


class TestMovedFolder:
    def test_a_finished_run_gives_its_reader(self, options: MakeOptions) -> None:
        first = options("first")
        reader = load_reader(train(first, quiet=True)).fingerprint
        moved = first.folder.rename(first.folder.with_name("moved"))
        assert load_reader(resume(options("moved"))).fingerprint == reader
        assert not first.folder.exists()
        assert (moved / RUN / BEST).is_file()

    def test_continues_as_if_it_had_not_moved(
        self, options: MakeOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A rate so high that the best epoch is an early one.
        whole = train(options("whole", epochs=4, lr=0.5), quiet=True)
        first = options("first", epochs=4, lr=0.5)
        with monkeypatch.context() as patch:
            cut_off(patch, epoch=3, step=0)
            with pytest.raises(PowerCutError):
                train(first, quiet=True)
        first.folder.rename(first.folder.with_name("moved"))
        moved = resume(options("moved", epochs=4, lr=0.5))
        assert history(moved) == history(whole)
        assert load_reader(moved).fingerprint == load_reader(whole).fingerprint
        best = load_checkpoint(moved / RUN / BEST)["epoch"]
        assert best == load_checkpoint(whole / RUN / BEST)["epoch"]


class TestOtherData:
    @pytest.fixture
    def begun(self, make_set: MakeSet, options: MakeOptions) -> TrainingOptions:
        """A run on a set of its own."""
        begun = options(data=(str(make_set(training=16, validation=4)),))
        train(begun, quiet=True)
        return begun

    @pytest.mark.parametrize("split", ["training", "validation"])
    def test_is_refused(self, begun: TrainingOptions, make_set: MakeSet, split: str) -> None:
        other = make_set(training=16, validation=4, seed=5)
        shutil.copy(other / f"{split}.parquet", Path(begun.data[0]) / f"{split}.parquet")
        with pytest.raises(FormatError) as refused:
            resume(begun)
        assert str(refused.value) == (
            f"{begun.out}: sets to resume with: expected the {split} documents of the earlier run, got other; "
            f"restore {begun.data[0]}, or start a new run without --resume"
        )

    def test_with_another_vocabulary_is_refused(self, begun: TrainingOptions) -> None:
        words = Vocabulary.build((story.text for story in tell_stories(1, 80)), size=50, entities=ENTITIES)
        words.save(Path(begun.data[0]) / "tokenizer.json")
        with pytest.raises(
            FormatError, match="expected the vocabulary and training documents and validation"
        ):
            resume(begun)

    def test_is_accepted_by_a_run_that_did_not_record_its_data(
        self, begun: TrainingOptions, make_set: MakeSet
    ) -> None:
        change(begun.folder / RUN / LAST, lambda checkpoint: checkpoint.pop("texts"))
        other = make_set(training=16, validation=4, seed=5)
        shutil.copy(other / "training.parquet", Path(begun.data[0]) / "training.parquet")
        assert len(history(resume(begun))) == 2

    def test_must_fit_the_network_of_a_run_that_did_not_record_its_data(self, begun: TrainingOptions) -> None:
        change(begun.folder / RUN / LAST, lambda checkpoint: checkpoint.pop("texts"))
        words = Vocabulary.build((story.text for story in tell_stories(1, 80)), size=50, entities=ENTITIES)
        words.save(Path(begun.data[0]) / "tokenizer.json")
        with pytest.raises(
            FormatError, match=r"last\.ckpt: expected weights of this network, got those of an"
        ):
            resume(begun)

    def test_a_copy_counts_as_the_same(self, begun: TrainingOptions, tmp_path: Path) -> None:
        copied = tmp_path / Path(begun.data[0]).name
        shutil.copytree(begun.data[0], copied, copy_function=shutil.copyfile)
        moved = TrainingOptions.from_json(begun.to_json() | {"out": begun.out, "data": [str(copied)]})
        assert history(resume(moved)) == history(begun.folder)


@pytest.fixture(scope="module")
def trained_once(stories_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be copied."""
    sizes = {"hidden_size": 8, "embedding_size": 8, "batch_size": 16, "questions": 3}
    out = str(tmp_path_factory.mktemp("trained") / "reader")
    return train(TrainingOptions(data=(str(stories_set),), out=out, epochs=1, **sizes), quiet=True)


class TestDamagedCheckpoint:
    @pytest.mark.parametrize("name", [LAST, BEST])
    @pytest.mark.parametrize("cut", [0, 1000], ids=["empty", "cut off"])
    def test_is_reported_in_one_line(self, options: MakeOptions, name: str, cut: int) -> None:
        file = train(options(epochs=1), quiet=True) / RUN / name
        file.write_bytes(file.read_bytes()[:cut])
        with pytest.raises(FormatError) as refused:
            resume(options(epochs=1))
        line = str(refused.value)
        assert line.startswith(f"{file}: expected a whole checkpoint, got a damaged one (")
        assert line.endswith("; start a new run without --resume")
        assert "\n" not in line

    def test_may_be_the_best_instead_of_the_last(self, options: MakeOptions) -> None:
        run = train(options(epochs=1), quiet=True) / RUN
        shutil.copy(run / BEST, run / LAST)
        with pytest.raises(FormatError, match="a run's last checkpoint, got one without optimizer_states"):
            resume(options(epochs=1))

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda file: file.update(history=5), r"Expected `array`, got `int` - at `\$.history`"),
            (lambda file: file.update(history=[{"epoch": "1"}]), "Expected `float`, got `str`"),
            (lambda file: file.update(callbacks=[]), "Expected `object`, got `array`"),
            (lambda file: file.update(state_dict={"a": 5}), "a tensor for 'a'"),
            (lambda file: file.update(options=7), "Expected `str`, got `int`"),
            (lambda file: file.update(options="{"), "the options in it"),
            (lambda file: file.update(options='{"sise": 3}'), "training option: expected one of"),
            (lambda file: file.update(texts={"vocabulary": 1}), "Expected `str`, got `int`"),
        ],
        ids=["history", "epoch", "callbacks", "weights", "options", "JSON", "an option", "data"],
    )
    def test_may_have_parts_of_another_type(
        self, options: MakeOptions, trained_once: Path, edit: Callable[[dict[str, Any]], object], message: str
    ) -> None:
        shutil.copytree(trained_once, options().folder)
        change(options().folder / RUN / LAST, edit)
        with pytest.raises(AttarError, match=message):
            resume(options(epochs=1))

    def test_that_claims_more_bytes_than_it_has_is_refused(
        self, options: MakeOptions, trained_once: Path
    ) -> None:
        """Zeros, compressed: torch would allocate what they claim to be."""
        shutil.copytree(trained_once, options().folder)
        file = options().folder / RUN / LAST
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data/99", bytes(2**26))
        with pytest.raises(FormatError, match=r"a whole checkpoint, got one that claims [0-9,]+ bytes"):
            resume(options(epochs=1))

    def test_may_be_another_kind_of_file(self, options: MakeOptions) -> None:
        run = train(options(epochs=1), quiet=True) / RUN
        torch.save([1, 2], run / LAST)
        with pytest.raises(FormatError, match=r"last\.ckpt: expected a checkpoint, got something else"):
            resume(options(epochs=1))
