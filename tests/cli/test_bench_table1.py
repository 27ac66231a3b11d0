"""`attar bench` without a subcommand measures Table 1."""

import json

import pytest
from typer.testing import CliRunner

from attar import ops
from attar.cli.main import make_app
from attar.errors import OptionError

QUICK = ("bench", "--quick", "--size", "8", "--device", "cpu")


def run(*arguments):
    return CliRunner().invoke(make_app(), arguments)


def test_without_a_subcommand_it_prints_the_table():
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


def test_help_lists_the_options_and_the_commands():
    shown = run("bench", "--help").output
    for word in ("--size", "--device", "--plot", "--json", "--quick", "ops"):
        assert word in shown


@pytest.mark.parametrize("option", [("--quick",), ("--size", "8"), ("--json",)])
def test_options_before_a_command_are_refused_rather_than_dropped(option):
    ran = run("bench", *option, "ops")
    assert isinstance(ran.exception, OptionError)
    assert option[0] in str(ran.exception)
    assert "after ops" in str(ran.exception)
