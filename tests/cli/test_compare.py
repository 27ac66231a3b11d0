"""`attar compare` leaves no run behind, however it ends, and goes on when it is started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attar.training.folders import alone_in

from .test_train import write_stories

ENDLESS = (
    "--mechanisms",
    "none",
    "--seeds",
    "1",
    "--side-by-side",
    "1",
    "--epochs",
    "100000",
    "--batch",
    "4",
)
SMALL = ("--size", "4", "--embedding", "4", "--questions", "1")


def wait_for(file: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until a file is there, which the process, or what it has started, writes."""
    deadline = time.monotonic() + 120
    while not file.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{file} is not written"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["told to end", "killed"])
def test_a_comparison_that_is_ended_ends_its_runs(tmp_path: Path, end: signal.Signals) -> None:
    data, out = tmp_path / "stories", tmp_path / "report"
    data.mkdir()
    comparison = subprocess.Popen(
        [sys.executable, "-m", "attar", "compare", "-d", write_stories(data), "-o", out, *ENDLESS, *SMALL],
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
    # Whoever trains holds the folder: it is free as soon as nobody does.
    with alone_in(run):
        assert (run / "best.ckpt").is_file()
