"""`attar bench` measures Table 1."""

import json

import pytest
from typer.testing import CliRunner

from attar import ops
from attar.cli.main import make_app

QUICK = ("bench", "--quick", "--size", "8", "--device", "cpu")


def run(*arguments):
    return CliRunner().invoke(make_app(), arguments)


def test_prints_the_table():
    ran = run(*QUICK)
    assert ran.exit_code == 0, ran.output
    assert "a) Query time" in ran.stdout
    assert "k = 8" in ran.stdout


@pytest.mark.slow
def test_json_and_a_plot_come_from_one_run(tmp_path):
    file = tmp_path / "table1.svg"
    ran = run(*QUICK, "--json", "--plot", str(file))
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["sizes"]["k"] == 8
    assert file.exists()


def test_a_wrong_result_is_a_failure(monkeypatch):
    right = ops.packed_lookup
    monkeypatch.setattr(ops, "packed_lookup", lambda packed, query: 2 * right(packed, query))
    ran = run(*QUICK)
    assert ran.exit_code == 1
    assert "linear is off by" in ran.stdout
