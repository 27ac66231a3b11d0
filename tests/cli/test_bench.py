"""`attar bench ops` from the command line, with tiny sizes."""

import json

import pytest
from typer.testing import CliRunner

from attar.cli.main import make_app


def run(*arguments):
    return CliRunner().invoke(make_app(), ["bench", "ops", "--quick", *arguments])


@pytest.mark.slow
def test_json_holds_the_machine_and_every_row():
    ran = run("--json")
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert {"cpu", "cores", "torch", "date"} <= set(report["machine"])
    assert len(report["rows"]) >= 5
    for row in report["rows"]:
        assert {"what", "against", "ratio", "target", "met", "verdict"} <= set(row)
        assert (row["verdict"], row["met"]) == ("not judged", None), row


def test_only_selects_rows_by_their_text():
    report = json.loads(run("--json", "--only", "ADAPTIVE").stdout)
    assert report["rows"]
    assert all("adaptive" in row["what"] for row in report["rows"])


def test_the_table_is_markdown_in_a_pipe():
    lines = run("--only", "torch.bmm").stdout.splitlines()
    head = next(line for line in lines if line.startswith("| what"))
    assert "| ratio" in head
    (row,) = (line for line in lines if line.startswith("| CPU encode"))
    assert row.endswith("| –      | not judged at this size |")


def test_neither_names_nor_paths_of_the_machine_are_printed():
    import platform
    from pathlib import Path

    shown = run("--only", "torch.bmm").stdout
    assert str(Path.cwd()) not in shown
    if len(platform.node()) > 3:
        assert platform.node() not in shown


@pytest.mark.slow
def test_the_demo_runs(monkeypatch):
    from attar import bench

    full = bench.run_demo
    monkeypatch.setattr(bench, "run_demo", lambda: full((10, 200), bench.QUICK))
    ran = CliRunner().invoke(make_app(), ["demo"])
    assert ran.exit_code == 0, ran.output
    assert "| 200 " in ran.stdout


@pytest.mark.parametrize("flag", ["--only", "--json", "--quick"])
def test_help_explains_every_option(flag):
    assert flag in CliRunner().invoke(make_app(), ["bench", "ops", "--help"]).output
