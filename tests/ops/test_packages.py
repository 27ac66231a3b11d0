"""`attar.ops` and `attar.nn` with PyTorch, NumPy, SciPy and jaxtyping alone: every other package is refused."""

import importlib.metadata
import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

PROGRAM = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        # Others are as if they were not installed.
        return None if name.partition(".")[0] in {refused!r} else super().find_spec(name, path, target)

sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
{code}
"""


def distributions(*names: str) -> set[str]:
    """Packages with all that they need themselves, without their extras."""
    wanted, left = set(), list(names)
    while left:
        name = normalized(left.pop())
        if name in wanted:
            continue
        wanted.add(name)
        needed = map(Requirement, importlib.metadata.requires(name) or [])
        left += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return wanted


def modules_beside(*names: str) -> set[str]:
    """The top-level modules of all packages that are installed and are none of these, nor needed by them."""
    wanted = distributions(*names) | {"attar"}
    provided = importlib.metadata.packages_distributions().items()
    return {top for top, owners in provided if not {normalized(owner) for owner in owners} & wanted}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def run(code: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(refused=modules_beside("torch", "numpy", "scipy", "jaxtyping"), code=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("package", ["msgspec", "lmdb", "tokenizers"])
def test_other_packages_are_refused_here(package: str) -> None:
    assert f"No module named '{package}'" in run(f"import {package}").stderr


def test_a_memory_is_written_and_looked_up() -> None:
    code = "import torch, attar.ops, attar.nn; f = torch.ones(1, 3, 2)"
    done = run(f"{code}; print(attar.ops.lookup(attar.ops.encode(f), f[:, :1]).tolist())")
    assert (done.stdout, done.stderr) == ("[[[6.0, 6.0]]]\n", "")


def test_an_attention_reads_a_text() -> None:
    code = "import torch, attar.nn; layer = attar.nn.attention('gated', 4)"
    done = run(f"{code}; print(layer.encode(torch.zeros(1, 3, 4)).state.shape)")
    assert (done.stdout, done.stderr) == ("torch.Size([1, 4, 4])\n", "")
