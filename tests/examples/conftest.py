"""Examples are run as a person runs them, on small settings, and what they print is read again."""

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
    """Gives what an example prints when nobody looks at it on a terminal."""

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
    """Finds tables in what was printed: rows of cells, without the row of names."""

    def find(printed: str) -> list[Table]:
        found = re.findall(r"(?:^\|.*\n)+", printed, re.MULTILINE)
        return [[[c.strip() for c in row.split("|")[1:-1]] for row in t.splitlines()[2:]] for t in found]

    return find


@pytest.fixture(scope="session")
def share() -> Callable[[str], float]:
    """Reads "97%" as 0.97."""
    return lambda cell: float(cell.removesuffix("%")) / 100
