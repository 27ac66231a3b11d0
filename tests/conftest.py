"""What every test stands on: shapes checked, seeds fixed, user data kept out of the way."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook
from xdist.scheduler import LoadFileScheduling

PACKAGE = Path(__file__).resolve().parents[1] / "attar"

# Triton reads this when it is imported: without a GPU its kernels run in Python, on the CPU.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The processes of `make test` share the machine: none of them, and none that they start, takes all cores.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


def modules_with_shapes() -> list[str]:
    """The modules whose signatures are checked; Triton's kernels are source for another compiler."""
    files = [file for room in ("ops", "nn") for file in sorted((PACKAGE / room).rglob("*.py"))]
    checked = [f for f in files if f.name != "__init__.py" and "triton.jit" not in f.read_text()]
    return [".".join(f.relative_to(PACKAGE.parent).with_suffix("").parts) for f in checked]


# Folders whose tests build wheels, run kernels under Triton's interpreter or start browsers; other slow tests are
# marked in their files.
TESTS = Path(__file__).parent
SLOW_FOLDERS = [TESTS / folder for folder in ("packaging", "ops/triton", "server/page")]
# What takes longest comes first, so that no process is left alone with it at the end.
LONGEST_FIRST = [TESTS / folder for folder in ("cluster", "server", "training", "cli", "benchmarks", "docs")]
# Folders whose tests share what is expensive to start: one process runs them all.
ONE_PROCESS = ("tests/cluster/", "tests/server/page/", "tests/cli/", "tests/deploy/")

# `make quick` tries fewer examples of each property.
settings.register_profile("quick", max_examples=15, deadline=None)
# No example has a deadline: other programs may take the processor.
settings.register_profile("attar", deadline=None)
settings.load_profile("attar")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whole folders as slow; order folders by the time that they take."""
    slow, ranks = {}, {}
    for path in {item.path for item in items}:
        slow[path] = any(path.is_relative_to(folder) for folder in SLOW_FOLDERS)
        found = (at for at, folder in enumerate(LONGEST_FIRST) if path.is_relative_to(folder))
        ranks[path] = next(found, len(LONGEST_FIRST))
    for item in items:
        if slow[item.path]:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: ranks[item.path])


class FilesAndFolders(LoadFileScheduling):
    """Gives each process of `pytest -n` a file at a time, or a folder of `ONE_PROCESS`, in the order collected."""

    def _split_scope(self, nodeid: str) -> str:
        whole = (folder for folder in ONE_PROCESS if nodeid.startswith(folder))
        return next(whole, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndFolders:
    """How tests are shared out, whatever `--dist` says."""
    config.option.loadscopereorder = False
    return FilesAndFolders(config, log)


install_import_hook(modules_with_shapes(), "beartype.beartype")

from attar.reader.reader import Reader  # noqa: E402  # after the hook
from benchmarks.tiny_reader import save_tiny_reader  # noqa: E402


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """The same random numbers in every test, whichever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def no_user_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Homes and caches in a temporary folder: a test must not read or write what a person keeps."""
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": home, "XDG_CACHE_HOME": home / "cache", "XDG_DATA_HOME": home / "data"}
    places |= {"XDG_CONFIG_HOME": home / "config", "MPLCONFIGDIR": home / "matplotlib"}
    places |= {"XDG_STATE_HOME": home / "state"}
    with pytest.MonkeyPatch.context() as patch:
        for name, place in places.items():
            patch.setenv(name, str(place))
        yield


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Shape checking off: the package's own errors come first, as they do for users."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def device() -> str:
    """Where tests marked `gpu` run: a CUDA device, or the CPU under Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="session")
def tiny_reader_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a phrase reader with random weights, which reads a page in milliseconds."""
    return save_tiny_reader(tmp_path_factory.mktemp("readers") / "tiny")


@pytest.fixture(scope="session")
def shipped() -> Reader:
    """The reader that ships."""
    return Reader.load()


@pytest.fixture(scope="session")
def tiny_reader(tiny_reader_folder: Path) -> Reader:
    """A phrase reader with random weights: for tests of what a reader is part of, not of its answers."""
    return Reader.load(tiny_reader_folder)
