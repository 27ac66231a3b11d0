"""The table as people and programs see it, and the figure, from one small run."""

import io
import json

import pytest
import torch
from rich.console import Console

from attar.errors import DeviceError, OptionError
from attar.paper import table1_report
from attar.paper.table1_report import (
    check_plot_file,
    choose_device,
    draw_table1,
    measure_table,
    notes_on,
    print_table1,
    table1_json,
)


@pytest.fixture(scope="module")
def table():
    torch.manual_seed(0)
    return measure_table(8, "cpu", quick=True)


def test_our_own_methods_are_right_at_every_size(table):
    assert table.correct


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


def test_the_json_has_costs_exponents_and_predictions(table):
    written = json.loads(table1_json(table))
    assert {"machine", "device", "sizes", "costs", "exponents", "predictions", "notes"} <= set(written)
    first = written["costs"]["query_time"][0]
    assert {"median", "low", "high"} == set(first["costs"]["linear"])


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_figure_is_of_the_kind_that_its_name_says(table, tmp_path, ending, begins):
    file = tmp_path / f"table1.{ending}"
    draw_table1(table, file)
    assert file.read_bytes().startswith(begins)


@pytest.mark.slow
def test_the_same_table_gives_the_same_figure(table, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw_table1(table, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("name", ["table1", "table1.docx", "no/such/folder/table1.png"])
def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path, name):
    with pytest.raises(OptionError, match="--plot"):
        check_plot_file(tmp_path / name)


def test_devices_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None) == "cpu"
    with pytest.raises(DeviceError, match="use --device cpu"):
        choose_device("cuda")
    with pytest.raises(OptionError, match="cpu or cuda"):
        choose_device("tpu")


def test_without_faiss_a_line_says_what_to_install(table, monkeypatch):
    monkeypatch.setattr(table1_report, "faiss_is_installed", lambda: False)
    notes = notes_on(table.machine, "cpu", table.sizes)
    assert any("pip install '.[search]'" in note for note in notes)
