"""`python -m benchmarks.startup`: how long commands take that need no model, from start to end, in wall time."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from attar.errors import OptionError
from attar.library.library import Library
from attar.paper.table1 import this_machine
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, at_most, run_cases

LIMIT, ROUNDS = 0.5, 15
BARE = "-c", "pass"
# What is typed after `attar`, and the exit code: refused questions name no document, or ask nothing.
COMMANDS = {
    "attar --help": (("--help",), 0),
    "attar list": (("list", "library"), 0),
    "attar show": (("show", "library", "letters"), 0),
    "attar ask, a document that is not there": (("ask", "library", "nobody", "Who wrote to Ann?"), 2),
    "attar ask, an empty question": (("ask", "library", "letters", " "), 2),
}


def compared(folder: Path, rounds: int, name: str) -> Comparison:
    """Seconds of a command against the limit; the note has the ratio to Python alone."""
    words, code = COMMANDS[name]
    command = ("-m", "attar", *words)
    seconds(folder, command, code)  # writes the byte code
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(seconds(folder, BARE, 0))
        ours.append(seconds(folder, command, code))
    note = f"{median(ours) / median(bare):.1f} times `python -c pass` ({median(bare) * 1000:.0f} ms)"
    return Comparison(ours, [LIMIT] * len(ours), note=note)


def seconds(folder: Path, words: tuple[str, ...], code: int) -> float:
    """Run Python with these arguments, and byte code of its own: an installed package has it, a test may not."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began, command = perf_counter(), [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    took = perf_counter() - began
    if done.returncode != code:
        came = f"{done.returncode}: {done.stderr.decode()}"
        raise OptionError.expected(" ".join(words), f"exit code {code}", came)
    return took


def main(only: Only = None, quick: Quick = False) -> None:
    """Compare the commands that need no model with half a second."""
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="attar-startup-") as place:
        with Library(Path(place) / "library") as library:
            library.add("letters", "Bob Hale wrote to Ann in May.")
        run = partial(compared, Path(place), 1 if quick else ROUNDS)
        cases = [Case(name, f"{LIMIT} s", at_most(1), partial(run, name)) for name in COMMANDS]
        run_cases(machine, cases, only=only, quick=quick, notes=machine.busy_notes())


if __name__ == "__main__":
    run_command(main)
