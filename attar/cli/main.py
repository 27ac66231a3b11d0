"""The `attar` command: one verb a command, each in its own file, nothing heavy imported before it runs."""

import sys
from typing import Annotated

import typer

import attar
from attar.cli import add, ask, bench, cloze, compare, demo, documents, evaluate, serve, store, train
from attar.cli.printing import fault_line

app = typer.Typer(
    name="attar",
    help="Distil documents into fixed-size memories; answer any question of one in constant time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help answers in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("add")(add.add)
app.command("append")(add.append)
app.command("ask")(ask.ask)
app.command("merge")(documents.merge)
app.command("remove")(documents.remove)
app.command("list")(documents.list_documents)
app.command("show")(documents.show)
app.add_typer(store.app, name="store")
app.command("export")(store.export_documents)
app.command("import")(store.import_documents)
app.add_typer(cloze.app, name="cloze")
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("serve")(serve.serve)
app.add_typer(bench.app, name="bench")


def print_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"attar {attar.__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Distil documents into fixed-size memories; answer any question of one in constant time."""


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    try:
        app()
    except attar.AttarError as mistake:
        print(fault_line(mistake), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
