"""The `attar` command. Commands import heavy packages only when they run."""

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import attar
from attar.cli import add, ask, documents
from attar.cli.output import error_line

_ABOUT = "Read documents into small memories, and answer questions from them with phrases and quotes."
# The base class of `typer.BadParameter` and the other errors of arguments: click's, which some versions of typer
# carry under a name of their own.
_UsageError: Any = typer.BadParameter.__base__


# What `attar --help` lists, in the order of who needs it; a command that is in none of them comes last.
_SECTIONS = {
    "Start here": ("demo", "add", "ask", "search", "serve"),
    "Documents": ("list", "show", "append", "merge", "tag", "remove", "verify", "watch"),
    "Libraries": ("reread", "mcp", "export", "import", "shard", "store"),
    "Readers and research": ("train-questions", "evaluate-questions", "bench", "paper"),
}

# What `--ray` takes for an address.
_ADDRESS = re.compile(r"auto|local|(ray://)?[^/\s]+:\d+")


class RayCommand(TyperCommand):
    """A command whose option `--ray` may come without an address; what looks like none is the next argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give `--ray` its default address."""
        whole = [
            "--ray=local" if argument == "--ray" and not _ADDRESS.fullmatch(following) else argument
            for argument, following in pairwise([*args, ""])
        ]
        return super().parse_args(ctx, whole)


class Sections(TyperGroup):
    """The commands under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*_SECTIONS.items(), ("Others", others)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(52)) for name, command in commands if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def make_app(command: str | None = None) -> typer.Typer:
    """All commands; if `command` is one of everyday use, only that, without the modules of the others."""
    app = typer.Typer(
        name="attar",
        cls=Sections,
        help=_ABOUT,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help takes half the time
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(root)
    everyday: dict[str, Callable[..., None]] = {
        "demo": demo,
        "add": add.add,
        "watch": add.watch,
        "append": add.append,
        "ask": ask.ask,
        "search": ask.search,
        "verify": ask.verify,
        "merge": documents.merge,
        "remove": documents.remove,
        "tag": documents.tag,
        "list": documents.list_documents,
        "show": documents.show,
        "reread": documents.reread,
    }
    for name in [command] if command in everyday else everyday:
        app.command(name, cls=RayCommand if name == "add" else None)(everyday[name])
    if command not in everyday:
        _add_others(app)
    return app


def _add_others(app: typer.Typer) -> None:
    """Add the commands that maintain, train, serve and measure; their options are built from dataclasses."""
    from attar.cli import paper, questions, serve, store

    app.command("serve", cls=RayCommand)(serve.serve)
    app.command("mcp")(serve.mcp)
    app.command("export")(store.export_documents)
    app.command("import")(store.import_documents)
    app.command("shard")(store.shard)
    app.command("train-questions")(questions.train_questions)
    app.command("evaluate-questions")(questions.evaluate_questions)
    app.command("bench")(paper.table1)
    app.add_typer(store.app, name="store")
    app.add_typer(paper.app, name="paper")


def demo() -> None:
    """Show the library on two short texts, then measure softmax attention and a memory as documents grow."""
    from attar.cli.demo import run_demo

    run_demo()


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
        print(error_line(mistake), file=sys.stderr)
        code = 2
    except _UsageError as mistake:
        _print_usage_error(mistake)
        code = 2
    except typer.Abort:
        code = 1
    sys.exit(code or 0)


def _print_usage_error(mistake: Any) -> None:
    """Print a mistake in the arguments as one line."""
    command = mistake.ctx.command_path if mistake.ctx is not None else "attar"
    line = mistake.format_message().strip().removesuffix(".")
    print(error_line(Exception(f"{line}; see {command} --help")), file=sys.stderr)


if __name__ == "__main__":
    main()
