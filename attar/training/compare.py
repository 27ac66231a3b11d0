"""The paper's experiment: mechanisms trained under one budget, with several seeds, side by side."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attar.errors import AttarError, OptionError, writing_to
from attar.progress import Progress, tell_nobody
from attar.training.folders import ANOTHER, need_writable
from attar.training.lifeline import WATCHED, lifeline
from attar.training.options import TrainingOptions
from attar.training.report import report_of
from attar.training.run import OPTIONS, read_result

MECHANISMS = ("none", "linear", "gated", "softmax")


@dataclass(frozen=True)
class Comparison:
    """What is compared: each mechanism with each seed, everything else alike."""

    base: TrainingOptions
    mechanisms: Sequence[str] = MECHANISMS
    seeds: int = 3
    side_by_side: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.side_by_side < 1:
            raise OptionError("seeds and side by side", "1 or more", f"{self.seeds} and {self.side_by_side}")
        if not self.mechanisms:
            raise OptionError("mechanisms", "one at least", "none")
        # Two runs of one would write the same folder.
        twice = sorted({name for name in self.mechanisms if self.mechanisms.count(name) > 1})
        if twice:
            raise OptionError("mechanisms", "each of them once", f"{', '.join(twice)} more often")

    @property
    def runs(self) -> list[TrainingOptions]:
        """One run a mechanism and seed, each in a folder of its own."""
        return [
            replace(self.base, mechanism=mechanism, seed=seed, out=str(self._folder(mechanism, seed)))
            for seed in range(self.seeds)
            for mechanism in self.mechanisms
        ]

    def _folder(self, mechanism: str, seed: int) -> Path:
        return Path(self.base.out) / "runs" / f"{mechanism}-{seed}"


def compare(comparison: Comparison, progress: Progress = tell_nobody) -> dict[str, Any]:
    """Train what is not trained yet, gather the results, and write `report.json` and the figure."""
    from attar.training.figure import draw

    out = Path(comparison.base.out)
    need_writable(out)
    waiting = [options for options in comparison.runs if not is_done(options)]
    # Words are counted and documents encoded once, here, and not by every run at the same time.
    if waiting:
        _prepare(comparison.base, progress)
    with shared_gpu(comparison.side_by_side):
        _run_all(waiting, comparison.side_by_side, progress)
    runs = {
        name: [each for each in comparison.runs if each.mechanism == name] for name in comparison.mechanisms
    }
    report = report_of(comparison.base, runs)
    with writing_to(out, ANOTHER):
        (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        draw(report, out / "figure")
    return report


def is_done(options: TrainingOptions) -> bool:
    """Whether a run has its result; one of other options is refused, since it would be taken for this one's."""
    result = read_result(options.folder)
    if result is None:
        return False
    changed = options.changes(result["options"])
    if changed:
        raise OptionError(
            str(options.folder),
            "results of " + ", ".join(f"{name} {now!r}" for name, (_, now) in changed.items()),
            ", ".join(repr(then) for then, _ in changed.values()),
            "choose another --out",
        )
    return True


def _prepare(base: TrainingOptions, progress: Progress) -> None:
    from attar.training.data import leave_out, need_splits, open_splits
    from attar.training.words import vocabulary_of

    splits = ("training", "validation", "test")
    need_splits(base.data, splits)
    skip = leave_out if base.skip_malformed else None
    vocabulary = vocabulary_of(base.data, skip=skip, progress=progress)
    for split in splits:
        open_splits(base.data, split, vocabulary, progress, skip)


def _run_all(waiting: list[TrainingOptions], at_once: int, progress: Progress) -> None:
    """Keep so many processes busy until all runs are done; the first that fails ends the others."""
    running: list[tuple[TrainingOptions, subprocess.Popen[bytes]]] = []
    queue, done = list(waiting), 0
    with lifeline() as line:
        try:
            while queue or running:
                while queue and len(running) < at_once:
                    options = queue.pop(0)
                    running.append((options, _start(options, line)))
                for each in list(running):
                    code = each[1].poll()
                    if code is not None:
                        running.remove(each)
                        if code:
                            raise _failure(each[0], code)
                        progress("training", done, len(waiting))
                        done += 1
                time.sleep(0.2)
        finally:
            for _, process in running:
                process.terminate()
            for _, process in running:
                process.wait()


def _start(options: TrainingOptions, line: int) -> "subprocess.Popen[bytes]":
    folder = options.folder
    given = options.to_json() | {"out": options.out, "workers": options.workers}
    with writing_to(folder, ANOTHER):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OPTIONS).write_text(json.dumps(given) + "\n", encoding="utf-8")
    program = ["-W", "ignore", "-m", "attar.training.run", WATCHED, str(folder / OPTIONS)]
    with open(folder / "log.txt", "wb") as log:
        threads = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, *program], stdin=line, stdout=log, stderr=log, env=threads)


def _failure(options: TrainingOptions, code: int) -> AttarError:
    log = options.folder / "log.txt"
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return AttarError(
        f"run {options.mechanism}, seed {options.seed}",
        "an end with exit code 0",
        f"{code} ({last[0] if last else 'no output'})",
        f"see {log}; the same command goes on from here",
    )


@contextmanager
def shared_gpu(processes: int) -> Iterator[None]:
    """Let several processes compute on one GPU at a time (NVIDIA's MPS), where it can be started.

    Without it they take turns: six GRUs trained three times as fast with it on an H200.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or processes < 2 or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(places)
        started = subprocess.run([control, "-d"], capture_output=True, check=False).returncode == 0
        try:
            if not started:
                for place in places:
                    del os.environ[place]
            yield
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", capture_output=True, check=False, timeout=30)
                for place in places:
                    os.environ.pop(place, None)
