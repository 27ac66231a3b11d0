"""The paper's experiment: mechanisms trained under the same conditions with several seeds, each run in its own process.

`python -m attar.paper.compare OPTIONS.json` makes one run.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import msgspec

from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_file
from attar.paper.evaluate import Report, Result, draw_figure, evaluate, load_pyplot, make_report
from attar.paper.network import load_network
from attar.paper.options import SPLITS, TrainingOptions
from attar.paper.sets import ClozeSet
from attar.paper.train import train
from attar.progress import Progress, ignore_progress

MECHANISMS = ("none", "linear", "gated", "softmax")
# In the folder of a run.
_OPTIONS = "options.json"
_RESULT = "result.json"
_LOG = "log.txt"
# Options that differ between runs.
_VARIED = ("mechanism", "seed")
# Seconds between two looks at the running processes.
_PAUSE = 0.2


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
            raise OptionError(f"{', '.join(repeated)} is given more than once", "name each mechanism once")

    @property
    def runs(self) -> list[TrainingOptions]:
        """One run per mechanism and seed, each with its own folder."""
        folder = Path(self.base.out) / "runs"
        return [
            replace(self.base, mechanism=mechanism, seed=seed, out=str(folder / f"{mechanism}-{seed}"))
            for seed in range(self.seeds)
            for mechanism in self.mechanisms
        ]


def compare(
    comparison: Comparison, *, say: Callable[[str], None] = print, progress: Progress = ignore_progress
) -> Report:
    """Make the missing runs, and write `report.json` and the figure; `say` is called with one line per epoch."""
    load_pyplot()  # missing, it is better refused now than after hours
    out = Path(comparison.base.out)
    runs = comparison.runs
    missing = [options for options in runs if not _is_done(options)]
    if missing:
        _prepare(comparison.base, progress)
        _run_all(missing, comparison.jobs, say, progress)
    results: dict[str, list[Result]] = {name: [] for name in comparison.mechanisms}
    for options in runs:
        result = read_result(options.folder)
        if result is None:
            raise FormatError(f"{options.folder} has no {_RESULT}", "give the same command again")
        results[options.mechanism].append(result)
    shared = {name: value for name, value in comparison.base.described().items() if name not in _VARIED}
    report = make_report(shared, results)
    with writing_to(out, "choose another --out"):
        (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        draw_figure(report, out / "figure")
    return report


def _is_done(options: TrainingOptions) -> bool:
    """Whether a run has its result; a result of other options is refused."""
    result = read_result(options.folder)
    if result is None:
        return False
    changed = options.changes(result.options)
    if changed:
        then = ", ".join(f"{name} {value!r}" for name, (value, _) in changed.items())
        raise OptionError(f"{options.folder} has the result of other options: {then}", "choose another --out")
    return True


def _prepare(base: TrainingOptions, progress: Progress) -> None:
    """Count words and encode documents once, here, and not in every run at the same time."""
    cloze_set = ClozeSet.open(base.data, skip_malformed=base.skip_malformed, progress=progress)
    cloze_set.check_splits(*SPLITS)
    vocabulary = cloze_set.vocabulary()
    for split in SPLITS:
        cloze_set.encoded(split, vocabulary)


@dataclass(frozen=True)
class _RunningProcess:
    """A run's process, and its log as it grows."""

    options: TrainingOptions
    process: "subprocess.Popen[bytes]"
    log: TextIO

    @classmethod
    def start(cls, options: TrainingOptions) -> "_RunningProcess":
        folder = options.folder
        with writing_to(folder, "choose another --out"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _OPTIONS).write_bytes(msgspec.json.encode(options))
            with open(folder / _LOG, "wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-m", "attar.paper.compare", str(folder / _OPTIONS)],
                    stdin=subprocess.PIPE,  # closes when this process ends, even by SIGKILL
                    stdout=log,
                    stderr=log,
                    env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                )
            return cls(options, process, open(folder / _LOG, encoding="utf-8", errors="replace"))

    @property
    def name(self) -> str:
        return f"{self.options.mechanism}, seed {self.options.seed}"

    def failure(self, code: int) -> AttarError:
        log = self.options.folder / _LOG
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "no output"
        remedy = f"see {log}; the same command continues from here"
        return AttarError(f"the run {self.name} ended with exit code {code} ({reason})", remedy)

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()  # closes its standard input, and waits
        self.log.close()


def _run_all(
    missing: Sequence[TrainingOptions], jobs: int, say: Callable[[str], None], progress: Progress
) -> None:
    """Make all runs, at most `jobs` at a time, and say what each prints; the first that fails stops the others."""
    queue, running, done = list(missing), list[_RunningProcess](), 0
    try:
        while queue or running:
            while queue and len(running) < jobs:
                running.append(_RunningProcess.start(queue.pop(0)))
            time.sleep(_PAUSE)
            progress("training", done, len(missing))
            for run in list(running):
                code = run.process.poll()
                for line in run.log:
                    say(f"{run.name}: {line.rstrip()}")
                if code is not None:
                    running.remove(run)
                    run.stop()
                    if code:
                        raise run.failure(code)
                    done += 1
    finally:
        for run in running:
            run.stop()


def read_result(folder: Path) -> Result | None:
    """A run's result, or None if there is none yet; a damaged one raises an error with its path."""
    file = folder / _RESULT
    try:
        return msgspec.json.decode(file.read_bytes(), type=Result)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as fault:
        remedy = "delete it: the same command then writes it again"
        raise FormatError(f"{file} is not the result of a run ({fault})", remedy) from fault


def run(options: TrainingOptions) -> Result:
    """Train, evaluate on validation and test, and write `result.json` last: a folder that has one is done."""

    def say(line: str) -> None:
        print(line, flush=True)

    history = train(options, resume=True, say=say)
    saved = load_network(options.folder)
    cloze_set = ClozeSet.open(options.data, skip_malformed=options.skip_malformed)
    validation, test = (
        evaluate(saved.network, cloze_set.encoded(split, saved.vocabulary))
        for split in ("validation", "test")
    )
    result = Result(options.described(), history, validation, test)
    with atomic_file(options.folder / _RESULT) as partial:
        partial.write_bytes(msgspec.json.encode(result))
    return result


def _exit_with_parent() -> None:
    """Exit when the standard input closes: the comparison has ended. The same command continues the run."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, name="exit with parent", daemon=True).start()


def main(file: str) -> None:
    """Make one run; an error is one line, the last of the log, which the comparison quotes."""
    _exit_with_parent()
    try:
        run(msgspec.json.decode(Path(file).read_bytes(), type=TrainingOptions))
    except AttarError as mistake:
        sys.exit(f"attar: {mistake}")


if __name__ == "__main__":
    main(sys.argv[1])
