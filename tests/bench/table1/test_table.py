"""The table as people and programs see it, and the figure, from one small run."""

import io
import json

import pytest
import torch
from rich.console import Console

from attar.bench.table1 import table as tables
from attar.bench.table1.figure import check_ending, draw
from attar.bench.table1.printing import print_table1, to_json
from attar.bench.table1.table import device_for, measure_table
from attar.errors import DeviceError, OptionError


@pytest.fixture(scope="module")
def table():
    torch.manual_seed(0)
    return measure_table(8, "cpu", quick=True)


def test_our_own_ways_are_whole(table):
    assert table.whole


def test_four_parts_and_the_predictions_are_printed_as_markdown_in_a_pipe(table, capsys):
    print_table1(table, Console())
    lines = capsys.readouterr().out.splitlines()
    assert [line[:2] for line in lines if line[1:2] == ")"] == ["a)", "b)", "c)", "d)"]
    assert sum(line.startswith("| predicted exponent") for line in lines) == 4
    assert sum(line.startswith("| measured exponent") for line in lines) == 4
    assert any(line.startswith("| n from which a packed memory is smaller than H") for line in lines)


def test_a_terminal_gets_a_drawn_table(table):
    console = Console(force_terminal=True, width=160, file=io.StringIO())
    print_table1(table, console)
    assert "┃" in console.file.getvalue()


def test_json_holds_all_of_it(table):
    written = json.loads(to_json(table))
    assert {"machine", "device", "sizes", "costs", "exponents", "findings", "notes"} <= set(written)
    first = written["costs"]["asking"][0]
    assert {"middle", "low", "high"} == set(first["costs"]["linear"])


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_figure_is_of_the_kind_that_its_name_says(table, tmp_path, ending, begins):
    file = tmp_path / f"table1.{ending}"
    draw(table, file)
    assert file.read_bytes().startswith(begins)


def test_the_same_table_gives_the_same_figure(table, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw(table, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("name", ["table1", "table1.docx", "no/such/folder/table1.png"])
def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path, name):
    with pytest.raises(OptionError, match="--plot"):
        check_ending(tmp_path / name)


def test_devices_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_for(None) == "cpu"
    with pytest.raises(DeviceError, match="use --device cpu"):
        device_for("cuda")
    with pytest.raises(OptionError, match="cpu or cuda"):
        device_for("tpu")


def test_without_faiss_a_line_says_what_to_install(table, monkeypatch):
    monkeypatch.setattr(tables, "faiss_is_installed", lambda: False)
    notes = tables.notes_on(table.machine, "cpu", table.sizes)
    assert any("pip install 'attar[search]'" in note for note in notes)
