"""The commands as the shell runs them, on a library with a tiny reader."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from attar.cli.main import main
from benchmarks.stories import tell_stories


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [story.text for story in tell_stories(3, 6)]


@pytest.fixture(scope="module")
def reader(tiny_reader_folder) -> Path:
    return tiny_reader_folder


@pytest.fixture
def place(tmp_path, texts, monkeypatch) -> Path:
    """A folder to work in, with stories in it."""
    (tmp_path / "stories" / "sub").mkdir(parents=True)
    for number, text in enumerate(texts[:3]):
        (tmp_path / "stories" / ("sub" if number == 2 else "") / f"story{number}.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def attar(monkeypatch, capsys, reader):
    """`attar …` as the shell runs it: exit code, lines on stdout, lines on stderr."""

    def run(*arguments, stdin: bytes = b""):
        reads = arguments[0] in ("add", "append", "ask") and not {"--reader", "--help"} & set(arguments)
        with_reader = ["--reader", str(reader)] if reads else []
        monkeypatch.setattr(sys, "argv", ["attar", *map(str, arguments), *with_reader])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    return run


@pytest.fixture
def filled(place, attar):
    assert attar("add", "S", "stories")[0] == 0
    return attar


@pytest.fixture
def listed(attar):
    """The names of a library's documents, as `attar list` gives them."""

    def names(store="S"):
        _, (line,), _ = attar("list", store, "--json")
        return [document["name"] for document in json.loads(line)["documents"]]

    return names


@dataclass(frozen=True)
class Ran:
    """The exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


def run_in_process(*arguments: object, program: tuple[str, ...] = ("-m", "attar")) -> Ran:
    """Run a command in a new process, where warnings are not errors."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def run_here(*arguments: object) -> Ran:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["attar", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture
def run() -> Run:
    return run_here


def assert_one_line(ran: Ran, *parts: str) -> None:
    """A mistake is reported in one line."""
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    lines = ran.stderr.strip().splitlines()
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("attar: ")
    for part in parts:
        assert part in lines[0]
