"""Flags are derived from the fields of a dataclass."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from attar.cli.options import options_from
from attar.options import option


@dataclass
class Options:
    names: tuple[str, ...] = option(("a",), "Names.", "-n")
    lr: float = option(0.5, "Learning rate.", min=0)
    epochs: int = option(3, "Epochs.", min=1)
    use_bias: bool = option(False, "Add a bias.")
    internal: int = 3


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None)

    @made.command()
    @options_from(Options, lr=0.25)
    def command(top: Annotated[int, typer.Option(help="Top.")] = 1, **given: Any) -> None:
        print(given, top)

    return made


def test_the_command_receives_the_values(app: typer.Typer) -> None:
    ran = CliRunner().invoke(app, ["-n", "x", "--names", "y", "--lr", "1", "--use-bias", "--top", "2"])
    expected = {"names": ["x", "y"], "lr": 1.0, "epochs": 3, "use_bias": True}
    assert ran.stdout == f"{expected} 2\n"
    assert ran.stderr == ""


def test_defaults_can_be_replaced(app: typer.Typer) -> None:
    ran = CliRunner().invoke(app, [])
    expected = {"names": ["a"], "lr": 0.25, "epochs": 3, "use_bias": False}
    assert ran.stdout == f"{expected} 1\n"


def test_help_has_every_field_with_a_help_text_once(app: typer.Typer) -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "-n, --names" in text
    words = " ".join(text.split())
    assert "Learning rate. [default: 0.25]" in words
    assert "Epochs. [default: 3; x>=1]" in words
    assert "--internal" not in text
    assert "--no-use-bias" not in text


def test_the_range_of_whole_numbers_is_checked(app: typer.Typer) -> None:
    ran = CliRunner().invoke(app, ["--epochs", "0"])
    assert ran.exit_code == 2
    assert "Invalid value for '--epochs'" in ran.stderr
    assert CliRunner().invoke(app, ["--epochs", "1"]).exit_code == 0
