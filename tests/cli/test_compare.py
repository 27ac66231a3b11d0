"""`attar compare`: what it prints, and one line per mistake."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attar.training.run_folder import lock_folder

from .conftest import SMALL, Ran, Run, assert_one_line, run_here, write_stories

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]

COMPARED = ("--mechanisms", "none", "--seeds", 1, *SMALL)


@pytest.fixture(scope="module")
def report(stories: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The folder of a comparison, and the output of `attar compare`."""
    out = tmp_path_factory.mktemp("report")
    return out, run_here("compare", "-d", stories, "-o", out, *COMPARED)


def test_prints_a_table(report: tuple[Path, Ran]) -> None:
    ran = report[1]
    assert ran.returncode == 0, ran.stderr
    rows = [line.split("|")[2].strip() for line in ran.stdout.splitlines()[2:]]
    assert rows == ["none", "most frequent name", "most frequent name not in the question"]


def test_prints_the_report_as_json(run: Run, report: tuple[Path, Ran], stories: Path) -> None:
    ran = run("compare", "-d", stories, "-o", report[0], *COMPARED, "--json")
    assert json.loads(ran.stdout) == json.loads((report[0] / "report.json").read_text())


def test_an_unknown_mechanism(run: Run, stories: Path, tmp_path: Path) -> None:
    ran = run("compare", "-d", stories, "-o", tmp_path, "--mechanisms", "none,magic", *SMALL)
    assert_one_line(ran, "mechanism: expected none or softmax", "got 'magic'")


def test_other_options_in_the_same_folder(run: Run, report: tuple[Path, Ran], stories: Path) -> None:
    ran = run("compare", "-d", stories, "-o", report[0], *COMPARED, "--lr", 1)
    assert_one_line(ran, "expected results of lr 1.0, got 0.004; choose another --out")


def wait_for(file: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until the process, or one of its children, has written a file."""
    deadline = time.monotonic() + 120
    while not file.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{file} is not written"
        time.sleep(0.05)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_comparison_that_is_ended_ends_its_runs(tmp_path: Path, end: signal.Signals) -> None:
    data, out = tmp_path / "stories", tmp_path / "report"
    endless = [*map(str, COMPARED), "--jobs", "1", "--epochs", "100000"]
    data.mkdir()
    comparison = subprocess.Popen(
        [sys.executable, "-m", "attar", "compare", "-d", write_stories(data), "-o", out, *endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    run = out / "runs" / "none-0" / "run"
    wait_for(run / "best.ckpt", comparison)
    comparison.send_signal(end)
    comparison.communicate(timeout=60)
    assert comparison.returncode == (128 + end if end == signal.SIGTERM else -end)
    # A run locks its folder as long as it trains.
    with lock_folder(run):
        assert (run / "best.ckpt").is_file()
