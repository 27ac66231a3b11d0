"""Examples are run as scripts with small settings, and their output is parsed."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Table = list[list[str]]


@pytest.fixture(scope="session")
def run_example() -> Callable[..., str]:
    """Runs an example and returns what it prints into a pipe."""

    def run(script: str, *arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLES / script, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def tables_in() -> Callable[[str], list[Table]]:
    """Finds the tables in an output: rows of cells, without the header."""

    def find(printed: str) -> list[Table]:
        found = re.findall(r"(?:^\|.*\n)+", printed, re.MULTILINE)
        return [[[c.strip() for c in row.split("|")[1:-1]] for row in t.splitlines()[2:]] for t in found]

    return find


@pytest.fixture(scope="session")
def share() -> Callable[[str], float]:
    """Reads "97%" as 0.97."""
    return lambda cell: float(cell.removesuffix("%")) / 100
