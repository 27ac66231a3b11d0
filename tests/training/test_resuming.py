"""A run goes on from its last checkpoint only if that is whole, and of the same texts; wherever its folder is."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attar.errors import FormatError
from attar.reader.folder import load_reader
from attar.text.vocabulary import Vocabulary
from attar.training.fit import BEST, LAST, RUN, train
from attar.training.options import TrainingOptions
from attar.training.resuming import load_checkpoint
from benchmarks.stories import tell_stories

from .conftest import ENTITIES, MakeOptions, MakeSet, PowerCutError, cut_off, history

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def resume(options: TrainingOptions) -> Path:
    return train(options, resume=True, quiet=True)


def change(file: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Write a checkpoint again, as another version or another hand would have."""
    checkpoint = torch.load(file, weights_only=True)
    edit(checkpoint)
    torch.save(checkpoint, file)


class TestAStoppedRun:
    def test_stays_stopped(self, options: MakeOptions) -> None:
        stopped = options(rate=1e-12, epochs=9, patience=2)
        reader = load_reader(train(stopped, quiet=True)).fingerprint
        for _ in range(2):
            assert [row["epoch"] for row in history(resume(stopped))] == [1, 2, 3]
        assert load_reader(stopped.folder).fingerprint == reader


class TestAMovedFolder:
    def test_of_a_run_that_is_done_gives_its_reader(self, options: MakeOptions) -> None:
        first = options("first")
        reader = load_reader(train(first, quiet=True)).fingerprint
        moved = first.folder.rename(first.folder.with_name("moved"))
        assert load_reader(resume(options("moved"))).fingerprint == reader
        assert not first.folder.exists()
        assert (moved / RUN / BEST).is_file()

    def test_goes_on_as_if_it_had_not_moved(
        self, options: MakeOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A rate so high that the best epoch is an early one.
        whole = train(options("whole", epochs=4, rate=0.5), quiet=True)
        first = options("first", epochs=4, rate=0.5)
        with monkeypatch.context() as patch:
            cut_off(patch, epoch=3, step=0)
            with pytest.raises(PowerCutError):
                train(first, quiet=True)
        first.folder.rename(first.folder.with_name("moved"))
        moved = resume(options("moved", epochs=4, rate=0.5))
        assert history(moved) == history(whole)
        assert load_reader(moved).fingerprint == load_reader(whole).fingerprint
        best = load_checkpoint(moved / RUN / BEST)["epoch"]
        assert best == load_checkpoint(whole / RUN / BEST)["epoch"]


class TestOtherTexts:
    @pytest.fixture
    def begun(self, make_set: MakeSet, options: MakeOptions) -> TrainingOptions:
        """A run on a set of its own."""
        begun = options(data=(str(make_set(training=16, validation=4)),))
        train(begun, quiet=True)
        return begun

    @pytest.mark.parametrize("split", ["training", "validation"])
    def test_are_refused(self, begun: TrainingOptions, make_set: MakeSet, split: str) -> None:
        other = make_set(training=16, validation=4, seed=5)
        shutil.copy(other / f"{split}.parquet", Path(begun.data[0]) / f"{split}.parquet")
        with pytest.raises(FormatError) as refused:
            resume(begun)
        assert str(refused.value) == (
            f"{begun.out}: sets to resume with: expected the {split} documents that the run was begun with, got "
            f"other; put {begun.data[0]} back as it was, or train anew without --resume"
        )

    def test_in_other_words_are_refused(self, begun: TrainingOptions) -> None:
        words = Vocabulary.build((story.text for story in tell_stories(1, 80)), size=50, entities=ENTITIES)
        words.save(Path(begun.data[0]) / "tokenizer.json")
        with pytest.raises(
            FormatError, match="expected the vocabulary and training documents and validation"
        ):
            resume(begun)

    def test_of_a_run_that_did_not_note_them_are_gone_on_with(
        self, begun: TrainingOptions, make_set: MakeSet
    ) -> None:
        change(begun.folder / RUN / LAST, lambda checkpoint: checkpoint.pop("texts"))
        other = make_set(training=16, validation=4, seed=5)
        shutil.copy(other / "training.parquet", Path(begun.data[0]) / "training.parquet")
        assert len(history(resume(begun))) == 2

    def test_of_a_run_that_did_not_note_them_fit_its_network(self, begun: TrainingOptions) -> None:
        change(begun.folder / RUN / LAST, lambda checkpoint: checkpoint.pop("texts"))
        words = Vocabulary.build((story.text for story in tell_stories(1, 80)), size=50, entities=ENTITIES)
        words.save(Path(begun.data[0]) / "tokenizer.json")
        with pytest.raises(
            FormatError, match=r"last\.ckpt: expected numbers of this network, got those of an"
        ):
            resume(begun)

    def test_that_were_only_copied_are_the_same(self, begun: TrainingOptions, tmp_path: Path) -> None:
        copied = tmp_path / Path(begun.data[0]).name
        shutil.copytree(begun.data[0], copied, copy_function=shutil.copyfile)
        moved = TrainingOptions.from_json(begun.to_json() | {"out": begun.out, "data": [str(copied)]})
        assert history(resume(moved)) == history(begun.folder)


class TestADamagedCheckpoint:
    @pytest.mark.parametrize("name", [LAST, BEST])
    @pytest.mark.parametrize("cut", [0, 1000], ids=["empty", "cut off"])
    def test_is_named_in_one_line(self, options: MakeOptions, name: str, cut: int) -> None:
        file = train(options(epochs=1), quiet=True) / RUN / name
        file.write_bytes(file.read_bytes()[:cut])
        with pytest.raises(FormatError) as refused:
            resume(options(epochs=1))
        line = str(refused.value)
        assert line.startswith(f"{file}: expected a whole checkpoint, got a damaged one (")
        assert line.endswith("; train anew without --resume")
        assert "\n" not in line

    def test_may_be_another_one(self, options: MakeOptions) -> None:
        run = train(options(epochs=1), quiet=True) / RUN
        shutil.copy(run / BEST, run / LAST)
        with pytest.raises(FormatError, match="a run's last checkpoint, got one without optimizer_states"):
            resume(options(epochs=1))

    def test_may_be_no_checkpoint(self, options: MakeOptions) -> None:
        run = train(options(epochs=1), quiet=True) / RUN
        torch.save([1, 2], run / LAST)
        with pytest.raises(FormatError, match=r"last\.ckpt: expected a checkpoint, got something else"):
            resume(options(epochs=1))
