"""Programs of Debian that tests need: those that are there or, for root, those that can be installed."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def program(name: str, *other_names: str) -> str:
    """Where a program is; the test is skipped where it is not, and cannot be installed."""
    found = _find(name, *other_names)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(name)
        found = _find(name)
    if found is None:
        pytest.skip(f"no {name} here: apt-get install {name}")
    return found


def _find(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


def _install(package: str) -> None:
    """Another test process that is at it is waited for."""
    quietly = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with (Path(tempfile.gettempdir()) / "attar-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which(package):
            return
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "-qq", package]):
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=300, check=False, env=quietly)
