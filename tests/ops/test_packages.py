"""`attar.ops` and `attar.nn` with PyTorch, NumPy, SciPy and jaxtyping alone: every other package is refused."""

import importlib.metadata
import re
import subprocess
import sys

from packaging.requirements import Requirement

# Modules of these names are as if they were not installed.
HIDING = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
"""


def distributions(*names: str) -> set[str]:
    """Packages with all that they need themselves, without their extras."""
    wanted, left = set(), list(names)
    while left:
        name = normalized(left.pop())
        if name in wanted:
            continue
        wanted.add(name)
        left += required_names(importlib.metadata.requires(name) or [])
    return wanted


def required_names(lines: list[str]) -> list[str]:
    """The packages that lines of requirements name, without those of extras and of other platforms."""
    needed = map(Requirement, lines)
    return [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def modules_beside(*names: str) -> set[str]:
    """The top-level modules of all packages that are installed and are none of these, nor needed by them."""
    wanted = distributions(*names) | {"attar"}
    provided = importlib.metadata.packages_distributions().items()
    return {top for top, owners in provided if not {normalized(owner) for owner in owners} & wanted}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def run(code: str) -> subprocess.CompletedProcess[str]:
    hiding = HIDING.format(absent=modules_beside("torch", "numpy", "scipy", "jaxtyping"))
    return subprocess.run([sys.executable, "-c", hiding + code], capture_output=True, text=True)


def test_other_packages_are_refused_here() -> None:
    assert "No module named 'msgspec'" in run("import msgspec").stderr


def test_a_memory_is_written_and_looked_up_and_an_attention_reads_a_text() -> None:
    code = "import torch, attar.ops, attar.nn; f, layer = torch.ones(1, 3, 2), attar.nn.attention('gated', 2)"
    looked_up = "attar.ops.lookup(attar.ops.encode(f), f[:, :1]).tolist()"
    done = run(f"{code}; print({looked_up}, layer.encode(f).state.shape)")
    assert (done.stdout, done.stderr) == ("[[[6.0, 6.0]]] torch.Size([1, 2, 2])\n", "")
