"""The `attar` command. Commands import heavy packages only when they run."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

import attar
from attar.cli import add, ask, documents, search
from attar.cli.options import RayCommand
from attar.cli.output import error_line

_ABOUT = "Read documents into small memories, and answer questions from them with phrases and quotes."


def make_app(command: str | None = None) -> typer.Typer:
    """All commands; if `command` is one of everyday use, only that, without the modules of the others."""
    app = typer.Typer(
        name="attar",
        help=_ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help takes half the time
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(root)
    everyday: dict[str, Callable[..., None]] = {
        "demo": demo,
        "add": add.add,
        "append": add.append,
        "ask": ask.ask,
        "search": search.search,
        "merge": documents.merge,
        "remove": documents.remove,
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
    from attar.cli import bench, cloze, cluster, questions, serve, store, train
    from attar.cli.options import accepting_former
    from attar.training import TrainingOptions

    app.add_typer(store.app, name="store")
    app.command("export")(store.export_documents)
    app.command("import")(store.import_documents)
    app.command("shard")(cluster.shard)
    app.add_typer(cloze.app, name="cloze")
    app.command("train", cls=accepting_former(TrainingOptions))(train.train)
    app.command("evaluate", cls=accepting_former(batch_size="batch"))(train.evaluate)
    app.command("compare", cls=accepting_former(TrainingOptions, jobs="side_by_side"))(train.compare)
    app.command("train-questions")(questions.train_questions)
    app.command("evaluate-questions")(questions.evaluate_questions)
    app.command("search-eval")(search.search_eval)
    app.command("serve", cls=RayCommand)(serve.serve)
    app.add_typer(bench.app, name="bench")


def demo() -> None:
    """Show the library on two short texts, then measure softmax attention and a memory as documents grow."""
    from attar.bench import run_demo

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
        make_app(*sys.argv[1:2])()
    except attar.AttarError as mistake:
        print(error_line(mistake), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
