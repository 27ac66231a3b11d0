"""The `attar` command. Commands import heavy packages only when they run."""

import re
import sys
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import attar
from attar.cli.output import print_note

_ABOUT = "Read documents into small memories, and answer questions from them with phrases and quotes."
# The base class of `typer.BadParameter` and the other errors of arguments: click's, which some versions of typer
# carry under a name of their own.
_UsageError: Any = typer.BadParameter.__base__

# What `attar --help` lists, in the order of who needs it: the function of each command, or the app of a group, in a
# module of this folder.
_SECTIONS = {
    "Start here": {
        "demo": "demo.demo",
        "add": "add.add",
        "ask": "ask.ask",
        "search": "ask.search",
        "serve": "serve.serve",
    },
    "Documents": {
        "list": "library.list_documents",
        "show": "library.show",
        "append": "add.append",
        "merge": "library.merge",
        "tag": "library.tag",
        "remove": "library.remove",
        "verify": "ask.verify",
        "watch": "add.watch",
    },
    "Libraries": {
        "reread": "library.reread",
        "mcp": "serve.mcp",
        "export": "library.export_documents",
        "import": "library.import_documents",
        "shard": "library.shard",
        "store": "library.app",
    },
    "Readers and research": {
        "train-questions": "research.train_questions",
        "evaluate-questions": "research.evaluate_questions",
        "bench": "research.table1",
        "paper": "research.app",
    },
}
_COMMANDS = {name: place for commands in _SECTIONS.values() for name, place in commands.items()}

# What `--ray` takes for an address.
_ADDRESS = re.compile(r"auto|local|(ray://)?[^/\s]+:\d+")


class RayCommand(TyperCommand):
    """A command whose option `--ray` may come without an address; what looks like none is the next argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        whole = [
            "--ray=local" if argument == "--ray" and not _ADDRESS.fullmatch(following) else argument
            for argument, following in pairwise([*args, ""])
        ]
        return super().parse_args(ctx, whole)


class Sections(TyperGroup):
    """The commands under headings, before the options."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Nothing: the options would come first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, names in _SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, command.get_short_help_str(52)) for name, command in commands if command]
                )
        super().format_options(ctx, formatter)


def make_app(only: str | None = None) -> typer.Typer:
    """All commands; or if `only` is the name of one, that alone, without the modules of the others."""
    app = typer.Typer(
        name="attar",
        cls=Sections,
        help=_ABOUT,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help takes half the time
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(root)
    for name in [only] if only in _COMMANDS else _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(".")
        command = getattr(import_module(f"attar.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, cls=RayCommand if name in ("add", "serve") else None)(command)
    return app


def _print_version(requested: bool) -> None:
    if requested:
        print(f"attar {attar.__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """The options before the command."""


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    try:
        arguments = sys.argv[1:] or ["--help"]
        code = make_app(arguments[0])(arguments, prog_name="attar", standalone_mode=False)
    except attar.AttarError as mistake:
        print_note(mistake)
        code = 2
    except _UsageError as mistake:
        _print_usage_error(mistake)
        code = 2
    except typer.Abort:
        code = 1
    sys.exit(code or 0)


def _print_usage_error(mistake: Any) -> None:
    command = mistake.ctx.command_path if mistake.ctx is not None else "attar"
    line = mistake.format_message().strip().removesuffix(".")
    if "extra argument" in line and command in ("attar search", "attar verify"):
        line = "a text of several words needs quotes"
    line = line.replace("a valid int range", "a whole number").replace("a valid int", "a whole number")
    print_note(f"{line}; see {command} --help")


if __name__ == "__main__":
    main()
