"""`attar search` and `attar store refit`: ranking documents."""

import sys
from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import print_json, printable, progress_bar, shown


def search(
    store: options.StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or some words.")],
    top: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 10,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the documents that fit a query best, each with its best sentences.

    attar search stories "who married Elizabeth?"
    """
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        with progress_bar() as progress:
            library.make_signatures(progress=progress)
        hits = library.search(query, top=top)
        print_search_state(library.search_state.lines())
    if as_json:
        print_json({"query": query, "hits": hits})
        return
    for hit in hits:
        print(f"{shown(hit.document)}  {hit.score:.1f}")
        for sentence in hit.sentences:
            place = f" ({shown(sentence.place)})" if sentence.place else ""
            print(f"  {printable(' '.join(sentence.text.split()))}{place}")
    if not hits:
        print("no documents")


def print_search_state(lines: list[str]) -> None:
    """Print what a person should know about a search, to stderr."""
    for line in lines:
        print(f"attar: {printable(line)}", file=sys.stderr)


def refit(
    store: options.StorePath,
    reader: options.ReaderPath = None,
    size: Annotated[
        int | None,
        typer.Option(min=2, max=1_024, help="Rows k of a signature's matrix; as the library has, or 128."),
    ] = None,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="Go on without documents that have no text: search loses them."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit the statistics to the library's own documents and recompute all signatures.

    The shards of a folder of shards are fitted together.

    attar store refit stories

    attar store refit stories --size 64
    """
    from attar.cluster.shards import is_sharded, refit_shards
    from attar.library.library import Library

    with progress_bar() as progress:
        if is_sharded(store):
            done = refit_shards(store, reader, size=size, leave_out=leave_out, progress=progress)
        else:
            with Library(store, reader, create=False) as library:
                done = library.refit(size=size, leave_out=leave_out, progress=progress)
    if as_json:
        print_json(done)
        return
    print(f"made {done.signatures:,} signatures")
    if done.left_out:
        print(f"{done.left_out:,} without a kept text are left out: search does not find them")
    if done.damaged:
        print(f"{done.damaged:,} damaged ones are left out: see attar store check")
