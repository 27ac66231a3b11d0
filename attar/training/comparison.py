"""The paper's experiment: mechanisms trained under the same conditions with several seeds, each run in its own process.

`python -m attar.training.comparison OPTIONS.json` makes one run.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attar.cloze.options import SPLITS
from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_file
from attar.progress import Progress, ignore_progress
from attar.reader.files import load_reader
from attar.training.data import check_splits, open_splits, shared_vocabulary, warn_skipped
from attar.training.evaluation import evaluate
from attar.training.fit import train
from attar.training.options import TrainingOptions
from attar.training.report import draw_figure, make_report
from attar.training.run_folder import OTHER_OUT, check_writable

MECHANISMS = ("none", "linear", "gated", "softmax")
_OPTIONS, _RESULT, _LOG = "options.json", "result.json", "log.txt"
_EXIT_WITH_PARENT = "--exit-with-parent"


@dataclass(frozen=True)
class Comparison:
    """Each mechanism is trained with each seed; all other options are the same. At most `jobs` runs at a time."""

    base: TrainingOptions
    mechanisms: Sequence[str] = MECHANISMS
    seeds: int = 3
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.jobs < 1:
            raise OptionError.expected("seeds and jobs", "1 or more", f"{self.seeds} and {self.jobs}")
        if not self.mechanisms:
            raise OptionError.expected("mechanisms", "at least one", "none")
        # Two runs of one mechanism would write the same folder.
        repeated = sorted({name for name in self.mechanisms if self.mechanisms.count(name) > 1})
        if repeated:
            raise OptionError.expected(
                "mechanisms", "each of them once", f"{', '.join(repeated)} more than once"
            )

    @property
    def runs(self) -> list[TrainingOptions]:
        """One run per mechanism and seed, each with its own folder."""
        folder = Path(self.base.out) / "runs"
        return [
            replace(self.base, mechanism=mechanism, seed=seed, out=str(folder / f"{mechanism}-{seed}"))
            for seed in range(self.seeds)
            for mechanism in self.mechanisms
        ]


def compare(comparison: Comparison, progress: Progress = ignore_progress) -> dict[str, Any]:
    """Make the missing runs, and write `report.json` and the figure; returns the report."""
    out = Path(comparison.base.out)
    check_writable(out)
    missing = [options for options in comparison.runs if not is_done(options)]
    # Words are counted and documents encoded once, here, and not by every run at the same time.
    if missing:
        _prepare(comparison.base, progress)
    with shared_gpu(comparison.jobs):
        _run_all(missing, comparison.jobs, progress)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in comparison.mechanisms}
    for options in comparison.runs:
        result = read_result(options.folder)
        if result is None:
            remedy = "give the same command again"
            raise FormatError.expected(str(options.folder / _RESULT), "a run's result", "none", remedy)
        results[options.mechanism].append(result)
    report = make_report(comparison.base.described(), results)
    with writing_to(out, OTHER_OUT):
        (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        draw_figure(report, out / "figure")
    return report


def is_done(options: TrainingOptions) -> bool:
    """Whether a run has its result; a result of other options is refused."""
    result = read_result(options.folder)
    if result is None:
        return False
    changed = options.changes(result["options"])
    if changed:
        raise OptionError.expected(
            str(options.folder),
            "results of " + ", ".join(f"{name} {now!r}" for name, (_, now) in changed.items()),
            ", ".join(repr(then) for then, _ in changed.values()),
            "choose another --out",
        )
    return True


def _prepare(base: TrainingOptions, progress: Progress) -> None:
    check_splits(base.data, SPLITS)
    skip = warn_skipped if base.skip_malformed else None
    vocabulary = shared_vocabulary(base.data, skip=skip, progress=progress)
    for split in SPLITS:
        open_splits(base.data, split, vocabulary, progress, skip)


def _run_all(missing: list[TrainingOptions], jobs: int, progress: Progress) -> None:
    """Make all runs, at most `jobs` at a time; the first that fails stops the others."""
    running: list[tuple[TrainingOptions, subprocess.Popen[bytes]]] = []
    queue, done = list(missing), 0
    with stdin_for_children() as stdin:
        try:
            while queue or running:
                while queue and len(running) < jobs:
                    options = queue.pop(0)
                    running.append((options, _start(options, stdin)))
                for each in list(running):
                    code = each[1].poll()
                    if code is not None:
                        running.remove(each)
                        if code:
                            raise _failure(each[0], code)
                        progress("training", done, len(missing))
                        done += 1
                time.sleep(0.2)
        finally:
            for _, process in running:
                process.terminate()
            for _, process in running:
                process.wait()


def _start(options: TrainingOptions, stdin: int) -> "subprocess.Popen[bytes]":
    folder = options.folder
    given = options.to_json() | {"out": options.out, "workers": options.num_workers}
    with writing_to(folder, OTHER_OUT):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _OPTIONS).write_text(json.dumps(given) + "\n", encoding="utf-8")
    program = ["-W", "ignore", "-m", "attar.training.comparison", _EXIT_WITH_PARENT, str(folder / _OPTIONS)]
    with open(folder / _LOG, "wb") as log:
        threads = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, *program], stdin=stdin, stdout=log, stderr=log, env=threads)


def _failure(options: TrainingOptions, code: int) -> AttarError:
    log = options.folder / _LOG
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return AttarError.expected(
        f"run {options.mechanism}, seed {options.seed}",
        "exit code 0",
        f"{code} ({last[0] if last else 'no output'})",
        f"see {log}; the same command continues from here",
    )


@contextmanager
def shared_gpu(processes: int) -> Iterator[None]:
    """Let several processes use one GPU at the same time (NVIDIA's MPS), if it can be started.

    Six GRUs trained three times as fast with it on an H200.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or processes < 2 or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(variables)
        started = subprocess.run([control, "-d"], capture_output=True, check=False).returncode == 0
        if not started:
            for name in variables:
                del os.environ[name]
        try:
            yield
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", capture_output=True, check=False, timeout=30)
                for name in variables:
                    os.environ.pop(name, None)


@contextmanager
def stdin_for_children() -> Iterator[int]:
    """A pipe as the standard input of child processes: it closes when this process ends, even by SIGKILL.

    Nothing is written to it, and no child inherits the other end.
    """
    end, held = os.pipe()
    try:
        yield end
    finally:
        os.close(end)
        os.close(held)


def exit_with_parent() -> None:
    """Exit as soon as the standard input closes; the run can be resumed from its last checkpoint."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        print(
            "attar: stopped, because the process that started this run has ended", file=sys.stderr, flush=True
        )
        os._exit(1)

    threading.Thread(target=wait, name="exit with parent", daemon=True).start()


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end this process by an exception, so that child processes and temporary files are cleaned up."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(options: TrainingOptions) -> dict[str, Any]:
    """Train, evaluate on validation and test, and write `result.json` last: a folder that has one is done."""
    folder = train(options, resume=True, quiet=True)
    saved = load_reader(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result: dict[str, Any] = {"options": options.to_json(), "history": saved.about["history"]}
    skip = warn_skipped if options.skip_malformed else None
    for split in ("validation", "test"):
        data = open_splits(options.data, split, saved.vocabulary, skip=skip)
        result[split] = evaluate(saved.network, saved.vocabulary, data, device=device).to_json()
    with atomic_file(folder / _RESULT) as partial:
        partial.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def read_result(folder: Path) -> dict[str, Any] | None:
    """A run's result, or None if there is none yet; a damaged one raises an error with its path."""
    file = folder / _RESULT
    remedy = "delete it: the same command then writes it again"
    try:
        result = json.loads(file.read_bytes())
        lacking = [name for name in ("options", "history", "test") if name not in result]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError) as fault:
        raise FormatError.expected(
            str(file), "a run's result", f"something else ({fault})", remedy
        ) from fault
    if lacking or not isinstance(result, dict):
        raise FormatError.expected(str(file), "a run's result", "something else", remedy)
    return result


def main(*arguments: str) -> None:
    """Make one run; an error is one line, the last of the log, which the comparison quotes."""
    if _EXIT_WITH_PARENT in arguments:
        exit_with_parent()
    try:
        run(TrainingOptions.from_json(json.loads(Path(arguments[-1]).read_text(encoding="utf-8"))))
    except AttarError as mistake:
        sys.exit(f"attar: {mistake}")


if __name__ == "__main__":
    main(*sys.argv[1:])
