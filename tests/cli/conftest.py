"""The commands as the shell runs them, on a library with a tiny reader."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from attar.cli.main import main, make_app
from benchmarks.stories import tell_stories


class Ran(NamedTuple):
    """The exit code of a command, and the lines that it printed."""

    code: int
    lines: list[str]
    errors: list[str]


def run_attar(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["attar", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
    return Ran(int(ended.value.code or 0), out.getvalue().splitlines(), err.getvalue().splitlines())


def assert_one_line(ran: Ran, *parts: str) -> None:
    """A mistake is reported in one line, with code 2."""
    assert (ran.code, ran.lines, len(ran.errors)) == (2, [], 1), ran
    assert ran.errors[0].startswith("attar: ")
    for part in parts:
        assert part in ran.errors[0]


def all_commands(command=None, name: str = "") -> dict[str, set[str]]:
    """The options of each command, by its name: "store check"."""
    command = command or typer.main.get_command(make_app())
    below = getattr(command, "commands", None)
    if not below:
        return {name: {flag for parameter in command.params for flag in parameter.opts}}
    parts = [all_commands(part, f"{name} {word}".strip()) for word, part in below.items()]
    return {name: flags for part in parts for name, flags in part.items()}


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
def attar(reader):
    """`attar …`, with the tiny reader where a command reads and no other is given."""

    def run(*arguments, stdin: bytes = b"") -> Ran:
        reads = arguments[0] in ("add", "append", "ask") and "--reader" not in arguments
        return run_attar(*arguments, *(["--reader", reader] if reads else []), stdin=stdin)

    return run


@pytest.fixture
def filled(place, attar):
    assert attar("add", "S", "stories").code == 0
    return attar


@pytest.fixture
def listed(attar):
    """The names of a library's documents, as `attar list` gives them."""

    def names(store="S"):
        _, (line,), _ = attar("list", store, "--json")
        return [document["name"] for document in json.loads(line)["documents"]]

    return names


class Cloze(NamedTuple):
    """A set of cloze questions, a network, and what the commands printed that made them."""

    texts: Path
    set: Path
    network: Path
    built: Ran
    trained: Ran


TINY_NETWORK = ("--hidden-size", 4, "--embedding-size", 4, "--epochs", 1, "--batch-size", 8, "--questions", 2)


@pytest.fixture(scope="session")
def cloze(tmp_path_factory) -> Cloze:
    folder = tmp_path_factory.mktemp("cloze")
    texts, built, network = (folder / name for name in ("texts", "set", "network"))
    texts.mkdir()
    stories = [story.text for story in tell_stories(3, 36)]
    for number in range(6):
        (texts / f"{number}.txt").write_text("\n\n".join(stories[number * 6 : number * 6 + 6]))
    return Cloze(
        texts,
        built,
        network,
        run_attar("paper", "build", texts, "--out", built, "--window", 150),
        run_attar("paper", "train", "-d", built, "-o", network, *TINY_NETWORK),
    )
