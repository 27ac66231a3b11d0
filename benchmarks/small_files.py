"""`python -m benchmarks.small_files`: `attar add` of 1,000 small text files, through the child process and without it.

With a reader that takes milliseconds, so that files count as much as they can; with the default one, adding the same
files takes ten times as long. Both in turn, the least of some rounds.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import typer

from benchmarks.command import run_command
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import save_tiny_reader

# How much longer it may take through the child process.
_MOST = 1.15
_FILES, _ROUNDS = 1_000, 3
# The command, with files that are read in its own process.
_IN_PROCESS = """
from functools import partialmethod
from attar.documents.workers import FileReader
FileReader.__init__ = partialmethod(FileReader.__init__, in_process=True)
"""
_ADD = "from attar.cli.main import main; main()"


def seconds(program: str, *words: str) -> float:
    """How long `attar add` takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, "add", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print both times; exit with code 1 if the child process takes more than 15 % more."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "files").mkdir()
        for number, story in enumerate(tell_stories(0, _FILES)):
            (folder / "files" / f"{number}.txt").write_text(story.text)
        reader = save_tiny_reader(folder / "reader")
        here, child = [], []
        for number in range(_ROUNDS):
            words = (str(folder / "files"), "--reader", str(reader))
            here.append(seconds(_IN_PROCESS + _ADD, str(folder / f"here-{number}"), *words))
            child.append(seconds(_ADD, str(folder / f"child-{number}"), *words))
    ratio = min(child) / min(here)
    print(f"{_FILES:,} files in process {min(here):.2f} s, through the child process {min(child):.2f} s")
    print(f"{ratio:.2f} × ({_MOST:g})")
    if ratio > _MOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
