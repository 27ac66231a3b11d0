"""`make release`: files that are too large are refused, and Pythons are found where people have them."""

import sys

import pytest

from attar.errors import OptionError
from benchmarks import release

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("name", "most"), [("attar.whl", release.MAX_WHEEL), ("attar.tar.gz", release.MAX_SDIST)]
)
def test_a_file_that_is_too_large_is_refused(tmp_path, name, most):
    file = tmp_path / name
    with file.open("wb") as opened:
        opened.truncate(most)
    release.check_size(file)
    with file.open("ab") as opened:
        opened.write(b"x")
    with pytest.raises(OptionError, match=f"{name}: expected at most {most / 1e6:g} MB"):
        release.check_size(file)


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_python_that_does_not_run_is_passed_over(tmp_path):
    script(tmp_path / "shims" / "python3.12", "exit 127")
    works = script(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "exit 0")
    found = release.find_pythons(
        {"PATH": f"{tmp_path}/shims", "PYENV_ROOT": f"{tmp_path}/pyenv", "HOME": "/"}
    )
    assert found["3.12"] == works


@pytest.mark.skipif(OWN not in release.PYTHONS, reason="another Python")
def test_pythons_on_the_path_are_preferred_to_those_of_pyenv(tmp_path):
    first = script(tmp_path / "shims" / f"python{OWN}", "exit 0")
    script(tmp_path / "pyenv" / "versions" / OWN / "bin" / f"python{OWN}", "exit 0")
    found = release.find_pythons({"PATH": f"{tmp_path}/shims", "PYENV_ROOT": f"{tmp_path}/pyenv"})
    assert found[OWN] == first
