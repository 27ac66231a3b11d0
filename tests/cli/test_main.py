"""The command itself: version, help and mistakes."""

import subprocess
import sys

import pytest
import typer.main

from attar.cli.main import make_app

from .conftest import all_commands


def run(*arguments):
    command = [sys.executable, "-m", "attar", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command_and_cuts_no_description(flag):
    ran = run(flag)
    assert ran.returncode == 0
    commands = ran.stdout.partition("Start here:")[2].partition("Options:")[0]
    listed = [
        line.split()[0] for line in commands.splitlines() if line.startswith("  ") and line[2:3].strip()
    ]
    assert listed[:5] == ["demo", "add", "ask", "search", "serve"]
    assert "..." not in commands
    assert set(listed) == set(typer.main.get_command(make_app()).commands)


def test_every_command_that_prints_results_takes_json():
    without = {name for name, flags in all_commands().items() if "--json" not in flags}
    assert without == {"demo", "mcp", "serve"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["ask", "L", "x", "--top", "0"],
            "attar: Invalid value for '--top': 0 is not in the range x>=1; see attar ask --help",
        ),
        (["list", "--bogus"], "attar: No such option: --bogus; see attar list --help"),
        (["ask"], "attar: Missing argument 'STORE'; see attar ask --help"),
        (["store"], "attar: Missing command; see attar store --help"),
        (["nonsense"], "attar: No such command 'nonsense'; see attar --help"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line_that_names_the_help(arguments, line):
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout, ran.stderr.splitlines()) == (2, "", [line])


@pytest.mark.parametrize(
    ("options", "address", "files"),
    [
        (["a", "--ray"], "local", ["a"]),
        (["--ray", "a", "b"], "local", ["a", "b"]),
        (["--ray", "10.0.0.1:6379", "a"], "10.0.0.1:6379", ["a"]),
        (["--ray=ray://head:10001", "a"], "ray://head:10001", ["a"]),
        (["--ray", "auto", "s3://bucket/a"], "auto", ["s3://bucket/a"]),
        (["a"], None, ["a"]),
    ],
)
def test_ray_takes_an_address_or_none(options, address, files):
    command = typer.main.get_command(make_app()).commands["add"]
    given = command.make_context("add", ["S", *options]).params
    assert (given["ray"], list(given["files"])) == (address, files)
