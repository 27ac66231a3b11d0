"""The environments that make builds: a lean one for `make demo`, and one with everything for `make test`."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# Compilers, and what only developers and few users need.
HEAVY = {"dev", "fast", "gpu", "parquet", "plots", "ray", "integrations", "mcp"}

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


def commands(*words: str) -> list[str]:
    """What make would run for a target in a fresh clone."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def installed(lines: list[str]) -> list[set[str]]:
    return [
        set(found[1].split(",")) for line in lines if (found := re.search(r"--editable '\.\[(.+)\]'", line))
    ]


def test_a_demo_installs_what_users_need_and_says_its_size_first():
    lines = commands("demo")
    assert installed(lines) == [set(EXTRAS) - HEAVY]
    assert re.search(r"[\d.]+ GB", lines[0])
    assert lines[-1] == ".venv/bin/attar demo"


def test_torch_comes_without_cuda_unless_another_index_is_wanted():
    torch = [line for line in commands("demo", "TORCH_INDEX=https://example.org/cpu") if "torch ||" in line]
    assert len(torch) == 1
    assert '--index-url "https://example.org/cpu"' in torch[0]
    (other,) = [line for line in commands("demo", "TORCH_INDEX=") if "torch ||" in line]
    assert other.startswith('test -z "" ||')
