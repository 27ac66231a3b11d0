"""Every script of `benchmarks/` runs, at its smallest size; `make nightly` runs these."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVERYDAY = ROOT / "benchmarks" / "questions" / "everyday.json"
pytestmark = pytest.mark.nightly

# Scripts that need no data, with the options that make them short. `overload` judges the machine: `make bench` runs it;
# `tests/text/test_linear.py` counts what `linear` counts.
ALONE = {
    "ask_all": (str(EVERYDAY), "--questions", "5"),
    "bank": ("--documents", "50", "--batch", "8"),
    "cluster_reading": ("--kills", "1", "--documents", "20"),
    "cluster_serve": ("--quick",),
    "crash": ("--kills", "10"),  # each kind once
    "document_bank": ("--documents", "4", "--batch", "8", "--rounds", "1", "--workers", "1"),
    "floods": ("--seconds", "0.5"),
    "fuzz": ("--examples", "20"),
    "merged_paragraphs": (str(EVERYDAY), "--paragraphs", "4", "--draws", "1"),
    "nested_keys": ("--seeds", "1", "--steps", "2"),
    "ops": ("--quick",),
    "ops_gpu": ("--quick",),
    "question_baselines": (str(EVERYDAY),),
    "question_budgets": (str(EVERYDAY), "--questions", "5"),
    "questions": ("--quick",),
    "reading": ("--texts", "3", "--rounds", "1"),
    "retrieval": (str(EVERYDAY), "--queries", "5"),
    "scale": ("--quick",),
    "search": ("--quick",),
    "startup": ("--quick",),
    "way": (),
} | ({"wrk": ("--seconds", "1", "--documents", "4")} if shutil.which("wrk") else {})


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-m", f"benchmarks.{script}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("script", ALONE)
def test_runs(script: str) -> None:
    assert run(script, *ALONE[script])


def test_the_recipe_of_a_reader(base: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
    """A run, and the questions that it has held out."""
    run("new_reader", *data, "--base", base, "--out", tmp_path / "reader", "--epochs", "1")
    held = tmp_path / "held-out.jsonl"
    run("held_out", *data, "--of", data[0], "--out", held)
    assert 0 < len(held.read_text().splitlines()) < len(data[0].read_text().splitlines())


def test_the_curve_of_the_results_is_drawn(tmp_path: Path) -> None:
    run("look_curve", ROOT / "docs" / "results.md", tmp_path / "looks.png")
    assert (tmp_path / "looks.png").stat().st_size > 0
