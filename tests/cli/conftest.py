"""The commands as the shell runs them, on a library with a small untrained reader."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch

from attar.cli.main import main
from attar.nn import Network, NetworkOptions
from attar.reader import NamesReader
from attar.text import Vocabulary
from benchmarks.stories import tell_stories


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [story.text for story in tell_stories(3, 6)]


@pytest.fixture(scope="module")
def reader(texts, tmp_path_factory) -> Path:
    """The folder of a reader whose memories depend on the table of names."""
    torch.manual_seed(5)
    vocabulary = Vocabulary.build(texts, size=150, entities=40)
    options = NetworkOptions(
        len(vocabulary), 40, mechanism="gated", encoder="gru", embedding_size=5, hidden_size=6
    )
    folder = tmp_path_factory.mktemp("reader")
    NamesReader(Network(options), vocabulary).save(folder)
    return folder


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
