"""`attar train`, `attar evaluate` and `attar compare`: what they print, and their one line about mistakes."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attar.cli.main import main
from attar.cloze.folder_cnn import write_folder
from attar.cloze.parquet import DocumentWriter
from attar.reader.folder import load_reader
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import story_document, tell_stories

SMALL = ("--size", 4, "--embedding", 4, "--epochs", 1, "--batch", 8, "--questions", 2)
COMPARED = ("--mechanisms", "none", "--seeds", 1, *SMALL)
COUNTS = {"training": 12, "validation": 4, "test": 4}

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


def run_apart(*arguments: object, program: tuple[str, ...] = ("-m", "attar")) -> Ran:
    """Run a command in a process of its own, where nothing is loaded and nobody listens to warnings."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command here: most need no process of their own."""

    def run_here(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["attar", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ran(int(ended.value.code or 0), printed.out, printed.err)

    return run_here


def assert_one_line(ran: Ran, *parts: str) -> None:
    """A mistake is told in one line and no more."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    lines = ran.stderr.strip().splitlines()
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("attar: ")
    for part in parts:
        assert part in lines[0]


@pytest.fixture(scope="module")
def make_stories(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a small set of stories, some of its splits."""
    return lambda *splits: write_stories(tmp_path_factory.mktemp("stories"), *splits)


def write_stories(folder: Path, *splits: str) -> Path:
    for seed, split in enumerate(splits or COUNTS):
        with DocumentWriter(folder / f"{split}.parquet") as writer:
            for number, story in enumerate(tell_stories(seed, COUNTS[split])):
                document = story_document(story, f"{seed} {number}")
                if split == "training":
                    document.questions = []
                writer.write(document)
    texts = (story.text for story in tell_stories(0, 12))
    Vocabulary.build(texts, size=100, entities=16).save(folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module")
def stories(make_stories: Callable[..., Path]) -> Path:
    return make_stories()


@pytest.fixture(scope="module")
def trained(stories: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A reader, and what `attar train` told of it."""
    out = tmp_path_factory.mktemp("trained") / "reader"
    return out, run_apart("train", "-d", stories, "-o", out, *SMALL)


class TestTrain:
    @pytest.mark.slow
    def test_prints_one_line_and_nothing_of_lightning(self, trained: tuple[Path, Ran]) -> None:
        out, ran = trained
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith(f"{out}: validation accuracy 0.")
        assert ran.stdout.endswith(" after epoch 1\n")
        assert ran.stderr.strip() == ""

    def test_a_reader_that_is_trained_on_keeps_its_mechanism(
        self, run: Run, stories: Path, tmp_path: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path, "--start", "default", "--mechanism", "gated")
        assert_one_line(
            ran, "options of the reader default: expected mechanism 'named', got 'gated'; leave out"
        )

    def test_writes_a_reader(self, trained: tuple[Path, Ran]) -> None:
        assert load_reader(trained[0]).network.options.mechanism == "gated"

    def test_goes_on_where_it_was_stopped(self, run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
        before = load_reader(trained[0]).fingerprint
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--resume", "--json")
        told = json.loads(ran.stdout)
        assert told["reader"] == str(trained[0])
        assert told["best"] == told["history"][0]
        assert load_reader(trained[0]).fingerprint == before

    def test_does_not_go_on_with_other_options(
        self, run: Run, trained: tuple[Path, Ran], stories: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", trained[0], *SMALL, "--seed", 5, "--resume")
        assert_one_line(ran, "options to resume with: expected seed 0, got 5", "without --resume")

    def test_trains_a_reader_on(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "on", "--start", trained[0], "--epochs", 1)
        assert ran.returncode == 0, ran.stderr
        assert load_reader(tmp_path / "on").network.options == load_reader(trained[0]).network.options

    def test_a_reader_that_is_trained_on_keeps_its_size(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "on", "--start", trained[0], "--size", 7)
        assert_one_line(ran, "options of the reader", "got 7", "without --start")

    @pytest.mark.slow
    @pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
    def test_profile_trains_nothing(self, run: Run, stories: Path, tmp_path: Path, as_json: bool) -> None:
        out = tmp_path / "reader"
        ran = run("train", "-d", stories, "-o", out, *SMALL, "--profile", *(["--json"] if as_json else []))
        assert ran.returncode == 0, ran.stderr
        told = (
            json.loads(ran.stdout) if as_json else dict(line.split(": ") for line in ran.stdout.splitlines())
        )
        assert float(told["ms per step"]) > 0
        assert not out.exists()

    @pytest.mark.slow
    def test_is_shared_by_the_processes_of_torchrun(
        self, trained: tuple[Path, Ran], stories: Path, tmp_path: Path
    ) -> None:
        launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "attar")
        out = tmp_path / "reader"
        ran = run_apart("train", "-d", stories, "-o", out, *SMALL, "--processes", 2, program=launch)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == trained[1].stdout.replace(str(trained[0]), str(out))
        assert "find_unused_parameters" not in ran.stderr


class TestMistakesInTraining:
    def test_a_folder_that_is_no_set(self, run: Run, tmp_path: Path) -> None:
        ran = run("train", "-d", tmp_path, "-o", tmp_path / "reader")
        assert_one_line(ran, str(tmp_path), "expected training.parquet", "build one with attar cloze build")

    def test_a_folder_that_is_not_there(self, run: Run, tmp_path: Path) -> None:
        ran = run("train", "-d", tmp_path / "none", "-o", tmp_path / "reader")
        assert_one_line(ran, "no such folder", "check the path")

    def test_a_set_without_validation(
        self, run: Run, make_stories: Callable[..., Path], tmp_path: Path
    ) -> None:
        ran = run("train", "-d", make_stories("training"), "-o", tmp_path / "reader")
        assert_one_line(ran, "expected a validation split, got training only")

    @pytest.mark.parametrize("command", ["train", "compare"])
    @pytest.mark.parametrize("below", ["", "out"], ids=["itself", "below it"])
    def test_a_file_to_write_to(
        self, run: Run, stories: Path, tmp_path: Path, command: str, below: str
    ) -> None:
        (tmp_path / "file").write_text("")
        ran = run(command, "-d", stories, "-o", tmp_path / "file" / below)
        assert_one_line(ran, "expected a folder to write to, got the file ", "choose another --out")

    @pytest.mark.parametrize("given", [("--clip", "nan"), ("--rate", "inf"), ("--dropout", "nan")])
    def test_a_number_that_is_none(
        self, run: Run, stories: Path, tmp_path: Path, given: tuple[str, str]
    ) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "reader", *given)
        assert_one_line(ran, f"attar: {given[0][2:]}: expected ", f"got {given[1]}")

    @pytest.mark.parametrize(
        ("mechanisms", "part"),
        [("", "one at least, got none"), ("none,none", "each of them once, got none more often")],
    )
    def test_mechanisms_to_compare(
        self, run: Run, stories: Path, tmp_path: Path, mechanisms: str, part: str
    ) -> None:
        ran = run("compare", "-d", stories, "-o", tmp_path / "report", "--mechanisms", mechanisms)
        assert_one_line(ran, f"mechanisms: expected {part}")

    @pytest.mark.parametrize("option", ["mechanism", "encoder", "head", "scale", "precision"])
    def test_a_choice_that_is_none(self, run: Run, stories: Path, tmp_path: Path, option: str) -> None:
        ran = run("train", "-d", stories, "-o", tmp_path / "reader", f"--{option}", "magic")
        assert_one_line(ran, f"attar: {option}: expected ", "got 'magic'")

    @pytest.mark.parametrize("command", ["train", "compare"])
    @pytest.mark.parametrize("package", ["pytorch_lightning", "tensorboard"])
    def test_training_without_its_packages(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, package: str
    ) -> None:
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name == package else find(name, *rest)
        )
        ran = run(command, "-d", tmp_path, "-o", tmp_path / "out")
        assert_one_line(ran, "training: expected", "got none; pip install 'attar[train]'")


class TestQuestionFiles:
    @pytest.fixture
    def cnn(self, tmp_path: Path) -> Path:
        for seed, (split, count) in enumerate(COUNTS.items()):
            documents = (story_document(s, f"{seed} {n}") for n, s in enumerate(tell_stories(seed, count)))
            write_folder(documents, tmp_path / "cnn" / "questions" / split)
        (tmp_path / "cnn" / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        return tmp_path / "cnn"

    def test_a_malformed_one_is_refused_with_its_line(self, run: Run, cnn: Path, tmp_path: Path) -> None:
        ran = run("train", "-d", cnn, "-o", tmp_path / "reader", *SMALL)
        assert_one_line(ran, "bad.question, line 3: expected five blocks")

    @pytest.mark.slow
    def test_a_malformed_one_is_left_out_when_asked(self, run: Run, cnn: Path, tmp_path: Path) -> None:
        out = tmp_path / "reader"
        ran = run_apart("train", "-d", cnn, "-o", out, *SMALL, "--skip-malformed")
        assert ran.returncode == 0, ran.stderr
        assert "attar: left out " in ran.stderr
        assert load_reader(out).vocabulary == Vocabulary.load(cnn / "encoded" / "tokenizer.json")
        told = json.loads(run("evaluate", "-d", cnn, "--reader", out, "--json").stdout)
        assert told["documents"] == COUNTS["test"]


class TestEvaluate:
    def test_prints_the_reader_beside_counting(
        self, run: Run, trained: tuple[Path, Ran], stories: Path
    ) -> None:
        ran = run("evaluate", "-d", stories, "--reader", trained[0])
        assert ran.returncode == 0, ran.stderr
        title, *rows, _ = ran.stdout.splitlines()
        assert title.startswith("test: ")
        assert title.endswith(" on 4 documents, 95 % intervals")
        names = [row.rsplit(None, 3)[0] for row in rows]
        assert names == ["reader", "most frequent name", "most frequent name not in the question"]

    def test_prints_what_a_memory_takes(self, run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
        last = run("evaluate", "-d", stories, "--reader", trained[0]).stdout.splitlines()[-1]
        assert re.fullmatch(
            r"a memory, on average +\d+ bytes in float16, \d+ bytes in int8 \(\d+ tokens, \d+ names\)", last
        )

    def test_prints_how_often_answers_are_mentioned_when_asked(
        self, run: Run, trained: tuple[Path, Ran], stories: Path
    ) -> None:
        ran = run("evaluate", "-d", stories, "--reader", trained[0], "--by-mentions")
        assert ran.returncode == 0, ran.stderr
        rows = [row for row in ran.stdout.splitlines() if ": mentioned " in row]
        assert sum(int(row.rpartition("of ")[2].removesuffix("%")) for row in rows) in range(98, 103)

    def test_json_is_for_programs(self, run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
        ran = run("evaluate", "-d", stories, "--reader", trained[0], "--split", "validation", "--json")
        told = json.loads(ran.stdout)
        assert told["split"] == "validation"
        assert told["reader"] == load_reader(trained[0]).fingerprint
        low, high = told["interval"]
        assert low <= told["accuracy"] <= high
        (memory,) = told["memories"].values()
        assert set(memory) == {"documents", "tokens", "names", "bytes"}

    def test_a_folder_that_is_no_reader(self, run: Run, stories: Path) -> None:
        ran = run("evaluate", "-d", stories, "--reader", stories)
        assert_one_line(ran, "config.json: expected a reader's file", "check the path")

    @pytest.mark.parametrize(
        ("split", "part"),
        [("tests", "expected training or validation or test, got 'tests'"), ("training", "without any")],
    )
    def test_a_split_without_questions(
        self, run: Run, trained: tuple[Path, Ran], stories: Path, split: str, part: str
    ) -> None:
        assert_one_line(run("evaluate", "-d", stories, "--reader", trained[0], "--split", split), part)


@pytest.fixture(scope="module")
def report(stories: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A comparison's folder, and what `attar compare` told of it."""
    out = tmp_path_factory.mktemp("report")
    return out, run_apart("compare", "-d", stories, "-o", out, *COMPARED)


@pytest.mark.slow
class TestCompare:
    def test_prints_a_table(self, report: tuple[Path, Ran]) -> None:
        ran = report[1]
        assert ran.returncode == 0, ran.stderr
        rows = [line.split("|")[2].strip() for line in ran.stdout.splitlines()[2:]]
        assert rows == ["none", "most frequent name", "most frequent name not in the question"]

    def test_gives_the_report_as_json(self, run: Run, report: tuple[Path, Ran], stories: Path) -> None:
        ran = run("compare", "-d", stories, "-o", report[0], *COMPARED, "--json")
        assert json.loads(ran.stdout) == json.loads((report[0] / "report.json").read_text())

    def test_an_unknown_mechanism(self, run: Run, stories: Path, tmp_path: Path) -> None:
        ran = run("compare", "-d", stories, "-o", tmp_path, "--mechanisms", "none,magic", *SMALL)
        assert_one_line(ran, "mechanism: expected none or softmax", "got 'magic'")

    def test_other_options_in_the_same_folder(
        self, run: Run, report: tuple[Path, Ran], stories: Path
    ) -> None:
        ran = run(
            "compare",
            "-d",
            stories,
            "-o",
            report[0],
            *COMPARED,
            "--rate",
            1,
        )
        assert_one_line(ran, "expected results of rate 1.0, got 0.004; choose another --out")
