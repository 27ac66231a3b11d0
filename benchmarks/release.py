"""Builds the wheel and the sdist, checks both, and tries the wheel where nothing else is: `make release`.

Nothing is published. The wheel is installed, with its dependencies, in an empty environment of each Python from 3.11
to 3.13 that is found on this machine, and answers a question there, on the command line and over HTTP.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from attar.errors import OptionError
from benchmarks.command import run_command

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# Bytes of the files that pip downloads; nearly all of the wheel is the weights of two networks.
MAX_WHEEL, MAX_SDIST = 45 * 10**6, 64 * 10**6
_MISSING = "not found, not tried"
TEXT, QUESTION, ANSWER = "Bob Hale wrote to Ann in May. Ann lives in Bath.", "Who wrote to Ann?", "Bob Hale"
# Over HTTP, with the package of the environment.
SERVED = f"""
import pathlib, re, subprocess, sys, attar
assert pathlib.Path(attar.__file__).is_relative_to(sys.prefix)
command = [sys.executable, "-m", "attar", "serve", "library", "--port", "0"]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
    try:
        for line in server.stderr:
            if found := re.search(r" at (http://\\S+)", line):
                url = found[1]
            if "startup complete" in line:
                break
        with attar.Client(url) as client:
            assert client.ask("letters", {QUESTION!r})[0].text == {ANSWER!r}
    finally:
        server.terminate()
        server.stderr.read()
"""


def main(
    torch_index: Annotated[str, typer.Option(help="Package index for torch, such as the one for CPUs.")] = "",
) -> None:
    """Make `dist` with both files, and check them."""
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    # The wheel is built from the sdist: one that lacks a file would be found here.
    _run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    files = sorted(out.iterdir())
    for file in files:
        check_size(file)
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    (wheel,) = out.glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="attar-release-") as folder:
        twine = _make_environment(sys.executable, Path(folder) / "twine")
        _run(twine / "python", "-m", "pip", "install", "--quiet", "twine")
        _run(twine / "python", "-m", "twine", "check", "--strict", *files)
        pythons, told = find_pythons(os.environ), dict[str, str]()
        for version in PYTHONS:
            told[version] = _MISSING
            if version in pythons:
                try:
                    try_wheel(wheel, pythons[version], Path(folder) / version, torch_index)
                    told[version] = "answers"
                except subprocess.CalledProcessError as error:  # the others are tried all the same
                    told[version] = f"fails: {error}"
            shutil.rmtree(Path(folder) / version, ignore_errors=True)  # gigabytes, with CUDA
            print(f"Python {version}: {told[version]}")
    tried = [outcome for outcome in told.values() if outcome != _MISSING]
    if not tried or set(tried) != {"answers"}:
        outcomes = "; ".join(f"{version} {outcome}" for version, outcome in told.items())
        raise OptionError.expected("the wheel", "one that answers with each Python", outcomes)


def check_size(file: Path) -> None:
    """Refuse a file that is too large to be fetched in a moment."""
    most = MAX_WHEEL if file.suffix == ".whl" else MAX_SDIST
    if file.stat().st_size > most:
        came = f"{file.stat().st_size / 1e6:.1f}"
        raise OptionError.expected(
            file.name, f"at most {most / 1e6:g} MB", came, "see what was added to the package"
        )


def find_pythons(environment: Mapping[str, str]) -> dict[str, Path]:
    """The Pythons of this machine, by version: on the path, of pyenv and of uv."""
    homes = environment.get("PYENV_ROOT", "~/.pyenv") + "/versions", "~/.local/share/uv/python"
    found: dict[str, Path] = {}
    for version in PYTHONS:
        name = f"python{version}"
        installed = (sorted(Path(home).expanduser().glob(f"*/bin/{name}"), reverse=True) for home in homes)
        candidates = [
            shutil.which(name, path=environment.get("PATH")),
            *map(str, chain.from_iterable(installed)),
        ]
        for candidate in filter(None, candidates):
            # pyenv has a program for each version on the path, most of which refuse to run.
            runs = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True)
            if runs.returncode == 0:
                found[version] = Path(candidate)
                break
    return found


def try_wheel(wheel: Path, python: Path, folder: Path, torch_index: str) -> None:
    """Install a wheel and what it needs in an empty environment, and ask a question there."""
    programs = _make_environment(python, folder / "environment")
    install = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--constraint", ROOT / "constraints.txt"]
    if torch_index:
        _run(*install, "--retries", "1", "--no-deps", "--index-url", torch_index, "torch", check=False)
    _run(*install, f"{wheel}[documents,fast,server]")
    _run(programs / "python", "-m", "pip", "check")
    work = folder / "work"
    work.mkdir()
    (work / "letters.txt").write_text(TEXT)
    _run(programs / "attar", "--version", cwd=work)
    _run(programs / "attar", "add", "library", "letters.txt", cwd=work)
    _run(programs / "attar", "ask", "library", "letters", QUESTION, cwd=work)
    _run(programs / "python", "-c", SERVED, cwd=work)


def _make_environment(python: str | Path, folder: Path) -> Path:
    """Make an empty environment; the folder of its programs."""
    _run(python, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def _run(*words: object, cwd: Path | None = None, check: bool = True) -> None:
    """Run a command, with nothing of the checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*map(str, words)], cwd=cwd, env=environment, check=check)


if __name__ == "__main__":
    run_command(main)
