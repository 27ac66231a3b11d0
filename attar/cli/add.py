"""`attar add` and `attar append`: text into a library."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import arguments
from attar.cli.adding_bar import adding_bar
from attar.cli.printing import change_line, fault_line, print_json
from attar.errors import AttarError, OptionError

if TYPE_CHECKING:
    from attar.library import Draft
    from attar.results import Change

STDIN = Path("-")


def add(
    store: arguments.StorePath,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Text, folders, .jsonl with “text”; - for stdin.")
    ],
    name: Annotated[str | None, typer.Option(help="The name of the one document there is.")] = None,
    replace: arguments.Replace = False,
    together: Annotated[
        bool, typer.Option("--together", help="Read under one table of names, to be merged.")
    ] = False,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Keep the text beside its memory.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on past files that are no text, and exit with 2.")
    ] = False,
    reader: arguments.ReaderPath = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16 or int8 in a new library; float16 unless said.")
    ] = None,
    durability: arguments.Durability = "sync",
    as_json: arguments.AsJson = False,
) -> None:
    """Read documents and keep their memories; a document that is listed is on the disk.

    Stopped and started again it goes on: the same text under the same name is left as it is.

    attar add stories novels/ emma.txt
    """
    from attar.library import Library, find_files, read_files

    skipped: list[str] = []
    bad = skip_into(skipped) if skip_bad else None
    changes: list[Change] = []
    sources = [] if files == [STDIN] else find_files(files, bad)
    with adding_bar(sum(source.bytes for source in sources)) as bar:

        def tell(change: "Change") -> None:
            changes.append(change)
            bar.added()
            if not as_json:
                print(change_line(change), flush=True)

        found = stdin_document(name) if files == [STDIN] else read_files(sources, bad, bar.read)
        documents = found if name is None else named(found, name)
        with Library(
            store,
            reader,
            dtype=dtype,
            durability=durability,  # type: ignore[arg-type]  # the store says which there are
            keep_text=keep_text,
        ) as library:
            try:
                library.add_many(
                    documents, replace=replace, shared_names=together, on_change=tell, progress=bar.reading
                )
            except KeyboardInterrupt:
                kept = f"{len(changes):,} documents are in the library"
                print(f"attar: stopped; {kept}, and the same command goes on from there", file=sys.stderr)
                raise typer.Exit(130) from None
    if as_json:
        print_json({"documents": changes, "skipped": skipped})
    elif len(changes) != 1:
        counts = Counter(each.change for each in changes)
        print(", ".join(f"{count:,} {change}" for change, count in counts.items()) or "no documents")
    if skipped:
        raise typer.Exit(2)


def append(
    store: arguments.StorePath,
    name: arguments.Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Plain text; - for stdin.")],
    reader: arguments.ReaderPath = None,
    durability: arguments.Durability = "sync",
    as_json: arguments.AsJson = False,
) -> None:
    """Read on: the text comes after what the document has.

    attar append stories emma chapter2.txt
    """
    from attar.cli.cloze import progress_bar
    from attar.library import Library, find_files, read_files

    texts = stdin_document(name) if file == STDIN else read_files(find_files([file]))
    (document,) = named(texts, name)
    library = Library(store, reader, durability=durability, create=False)  # type: ignore[arg-type]
    with library, progress_bar() as progress:
        change = library.append(name, document.text, progress=progress)
    if as_json:
        print_json(change)
    else:
        print(change_line(change))


def skip_into(skipped: list[str]) -> Callable[[AttarError], None]:
    """What says a file's fault at once, and remembers it."""

    def skip(fault: AttarError) -> None:
        skipped.append(str(fault))
        print(f"{fault_line(fault)} (left out)", file=sys.stderr)

    return skip


def stdin_document(name: str | None) -> "list[Draft]":
    """The text on stdin as a document."""
    from attar.library import Draft
    from attar.text import decode_text

    if name is None:
        raise OptionError("name", "--name NAME for a text from stdin", "none")
    return [Draft.of(name, decode_text(sys.stdin.buffer.read(), "stdin"))]


def named(documents: "Iterable[Draft]", name: str) -> "list[Draft]":
    """The only document, under a name."""
    found = list(documents)
    if len(found) != 1:
        raise OptionError("files", f"one document to be {name!r}", f"{len(found):,}", "name one text file")
    return [found[0]._replace(name=name)]
