"""`attar train`: what it prints, and one line per mistake."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attar.reader.files import load_reader
from attar.text.vocabulary import Vocabulary
from benchmarks.question_files import write_folder
from benchmarks.stories import story_document, tell_stories

from .conftest import COUNTS, SMALL, Ran, Run, assert_one_line, run_in_process

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.slow
class TestTrain:
    def test_prints_one_line_and_no_messages_of_lightning(self, trained: tuple[Path, Ran]) -> None:
        out, ran = trained
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith(f"{out}: validation accuracy 0.")
        assert ran.stdout.endswith(" after epoch 1\n")
        assert ran.stderr.strip() == ""

    def test_fine_tuning_keeps_the_mechanism(self, run: Run, stories: Path, tmp_path: Path) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path, "--init-from", "default", "--mechanism", "gated")
        assert_one_line(ran, "options of the reader default: expected mechanism 'named', got 'gated'; omit")

    def test_writes_a_reader(self, trained: tuple[Path, Ran]) -> None:
        assert load_reader(trained[0]).network.options.mechanism == "gated"

    def test_resumes(self, run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
        before = load_reader(trained[0]).fingerprint
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--resume", "--json")
        told = json.loads(ran.stdout)
        assert told["reader"] == str(trained[0])
        assert told["best"] == told["history"][0]
        assert load_reader(trained[0]).fingerprint == before

    def test_does_not_overwrite_a_reader(self, run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
        before = load_reader(trained[0]).fingerprint
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--seed", 5)
        assert_one_line(ran, "config.json: expected nothing there yet", "--resume or --replace")
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--resume", "--replace")
        assert_one_line(ran, "--resume and --replace: expected one of them, got both")
        assert load_reader(trained[0]).fingerprint == before

    def test_replaces_a_reader_if_asked_to(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        copied = shutil.copytree(trained[0], tmp_path / "reader")
        ran = run("train", "-d", stories, "-o", copied, *SMALL, "--seed", 5, "--replace")
        assert ran.returncode == 0, ran.stderr
        assert load_reader(copied).fingerprint != load_reader(trained[0]).fingerprint

    def test_does_not_resume_with_other_options(
        self, run: Run, trained: tuple[Path, Ran], stories: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--seed", 5, "--resume")
        assert_one_line(ran, "options to resume with: expected seed 0, got 5", "without --resume")

    def test_fine_tunes_a_reader(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "on", "--init-from", trained[0], "--epochs", 1)
        assert ran.returncode == 0, ran.stderr
        assert load_reader(tmp_path / "on").network.options == load_reader(trained[0]).network.options

    def test_fine_tuning_keeps_the_hidden_size(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        ran = run(
            "train", "-d", stories, "-o", tmp_path / "on", "--init-from", trained[0], "--hidden-size", 7
        )
        assert_one_line(ran, "options of the reader", "got 7", "without --init-from")

    def test_profile_names_the_command_that_replaced_it(self, run: Run) -> None:
        assert_one_line(run("train", "--profile"), "--profile", "python -m benchmarks.training --data SET")

    def test_is_shared_by_the_processes_of_torchrun(
        self, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "attar")
        out = tmp_path / "reader"
        ran = run_in_process("train", "-d", stories, "-o", out, *SMALL, program=launch)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == trained[1].stdout.replace(str(trained[0]), str(out))
        assert "find_unused_parameters" not in ran.stderr


class TestFormerFlags:
    @pytest.mark.parametrize(
        ("former", "flag", "name"),
        [
            (("--rate", "nan"), "--lr", "lr"),
            (("--clip=nan",), "--grad-clip", "grad_clip"),
        ],
        ids=["with a space", "with an equals sign"],
    )
    def test_are_accepted_with_one_line(
        self, run: Run, stories: Path, tmp_path: Path, former: tuple[str, ...], flag: str, name: str
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "reader", *former)
        notice, error = ran.stderr.splitlines()
        assert notice == f"attar: {former[0][:6]} is now {flag}; the old name goes away in 0.3"
        assert error == f"attar: {name}: expected a finite number, got nan"

    def test_set_the_same_options(self, run: Run, stories: Path, tmp_path: Path) -> None:
        out = tmp_path / "reader"
        former = (
            "--size",
            4,
            "--embedding",
            5,
            "--epochs",
            1,
            "--batch",
            8,
            "--questions",
            2,
            "--rate",
            0.01,
        )
        ran = run("train", "-d", stories, "-o", out, *former)
        assert ran.returncode == 0, ran.stderr
        flags = [line.split()[1] for line in ran.stderr.splitlines() if " is now " in line]
        assert flags == ["--size", "--embedding", "--batch", "--rate"]
        training = load_reader(out).about["training"]
        assert [training[name] for name in ("size", "embedding", "batch", "rate")] == [4, 5, 8, 0.01]

    def test_of_one_command_are_unknown_to_others(self, run: Run, stories: Path) -> None:
        ran = run("evaluate", "-d", stories, "--rate", 1)
        assert ran.returncode == 2
        assert "No such option" in ran.stderr


class TestMistakesInTraining:
    def test_a_folder_without_a_set(self, run: Run, tmp_path: Path) -> None:
        ran = run("train", "-d", tmp_path, "-o", tmp_path / "reader")
        assert_one_line(ran, str(tmp_path), "expected training.parquet", "build one with attar cloze build")

    def test_a_missing_folder(self, run: Run, tmp_path: Path) -> None:
        ran = run("train", "-d", tmp_path / "none", "-o", tmp_path / "reader")
        assert_one_line(ran, "no such folder", "check the path")

    def test_a_set_without_validation(
        self, run: Run, make_stories: Callable[..., Path], tmp_path: Path
    ) -> None:
        ran = run("train", "-d", make_stories("training"), "-o", tmp_path / "reader")
        assert_one_line(ran, "expected a validation split, got training only")

    @pytest.mark.parametrize("command", ["train", "compare"])
    @pytest.mark.parametrize("below", ["", "out"], ids=["itself", "below it"])
    def test_a_file_as_output_folder(
        self, run: Run, stories: Path, tmp_path: Path, command: str, below: str
    ) -> None:
        (tmp_path / "file").write_text("")
        ran = run(command, "-d", stories, "-o", tmp_path / "file" / below)
        assert_one_line(ran, "expected a folder to write to, got the file ", "choose another --out")

    @pytest.mark.parametrize("given", [("--grad-clip", "nan"), ("--lr", "inf"), ("--dropout", "nan")])
    def test_a_number_that_is_not_finite(
        self, run: Run, stories: Path, tmp_path: Path, given: tuple[str, str]
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "reader", *given)
        assert_one_line(ran, f"attar: {given[0][2:].replace('-', '_')}: expected ", f"got {given[1]}")

    @pytest.mark.parametrize(
        ("mechanisms", "part"),
        [("", "at least one, got none"), ("none,none", "each of them once, got none more than once")],
    )
    def test_mechanisms_to_compare(
        self, run: Run, stories: Path, tmp_path: Path, mechanisms: str, part: str
    ) -> None:
        ran = run("compare", "-d", stories, "-o", tmp_path / "report", "--mechanisms", mechanisms)
        assert_one_line(ran, f"mechanisms: expected {part}")

    @pytest.mark.parametrize("option", ["mechanism", "encoder", "head", "scale", "precision"])
    def test_an_unknown_choice(self, run: Run, stories: Path, tmp_path: Path, option: str) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "reader", f"--{option}", "magic")
        assert_one_line(ran, f"attar: {option}: expected ", "got 'magic'")

    @pytest.mark.parametrize("command", ["train", "compare"])
    @pytest.mark.parametrize("package", ["pytorch_lightning", "tensorboard"])
    def test_training_without_lightning_or_tensorboard(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, package: str
    ) -> None:
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name == package else find(name, *rest)
        )
        ran = run(command, "-d", tmp_path, "-o", tmp_path / "out")
        assert_one_line(ran, "training: expected", "got none; pip install '.[train]'")


class TestQuestionFiles:
    @pytest.fixture
    def cnn(self, tmp_path: Path) -> Path:
        for seed, (split, count) in enumerate(COUNTS.items()):
            documents = (story_document(s, f"{seed} {n}") for n, s in enumerate(tell_stories(seed, count)))
            write_folder(documents, tmp_path / "cnn" / "questions" / split)
        (tmp_path / "cnn" / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        return tmp_path / "cnn"

    def test_a_malformed_one_is_refused_with_its_line_number(
        self, run: Run, cnn: Path, tmp_path: Path
    ) -> None:
        ran = run("train", "-d", cnn, "-o", tmp_path / "reader", *SMALL)
        assert_one_line(ran, "bad.question, line 3: expected five blocks")

    @pytest.mark.slow
    def test_a_malformed_one_is_skipped_on_request(self, run: Run, cnn: Path, tmp_path: Path) -> None:
        out = tmp_path / "reader"
        ran = run_in_process("train", "-d", cnn, "-o", out, *SMALL, "--skip-malformed")
        assert ran.returncode == 0, ran.stderr
        assert "attar: skipped " in ran.stderr
        assert load_reader(out).vocabulary == Vocabulary.load(cnn / "encoded" / "tokenizer.json")
        told = json.loads(run("evaluate", "-d", cnn, "--reader", out, "--json").stdout)
        assert told["documents"] == COUNTS["test"]
