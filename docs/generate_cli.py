"""Write `docs/cli.md`, every command's `--help`, from the command line itself.

    .venv/bin/python docs/generate_cli.py

`tests/docs/test_cli_reference.py` fails while the page says anything else than the commands do.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from attar.cli.main import make_app

PAGE = Path(__file__).with_name("cli.md")
# Room for the longest example in a command's help, so that none is broken in two.
WIDTH = 100
# Click's, which some versions of typer carry under a name of their own.
Command = Any

INTRODUCTION = """\
# Command line

What each command says of itself with `--help`. Every command that prints results takes `--json`; a mistake is one
line on stderr and exit code 2; `attar --install-completion` teaches your shell to complete names of commands,
options and documents.

This page is generated: `.venv/bin/python docs/generate_cli.py`.
"""


def commands(command: Command, name: str = "attar") -> Iterator[tuple[str, Command]]:
    """Yield a command and all below it, with their names as they are typed."""
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def help_of(name: str, command: Command) -> str:
    """What `--help` prints, in a terminal of a fixed width."""
    names = {"help_option_names": ["-h", "--help"]}
    context = command.make_context(
        name, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH, **names
    )
    lines = [line.rstrip() for line in command.get_help(context).splitlines()]
    return "\n".join(lines).strip()


def make_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name, command in commands(typer.main.get_command(make_app())):
        parts.append(f"{'#' * (1 + len(name.split()))} {name}\n\n```text\n{help_of(name, command)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(PAGE.read_text(encoding='utf-8').splitlines())} lines")
