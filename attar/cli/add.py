"""`attar add` and `attar append`: text into a library."""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.cli.output import adding_bar, error_line, note_reader, print_change, print_json, progress_bar
from attar.errors import AttarError, OptionError

if TYPE_CHECKING:
    from attar.library import Draft
    from attar.results import Change

_STDIN = Path("-")


def add(
    store: options.StorePath,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help='Text files, .jsonl files with a "text" field, folders; - for stdin.'
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the document, if there is only one; required for stdin.")
    ] = None,
    replace: options.Replace = False,
    together: Annotated[
        bool,
        typer.Option("--together", help="Share one table of names, so that the documents can be merged."),
    ] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text/--no-text", help="Keep the text, compressed, to quote from.")
    ] = True,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Skip files that are not text, and exit with code 2 at the end."),
    ] = False,
    reader: options.ReaderPath = None,
    dtype: Annotated[
        str | None, typer.Option(help="Data type of a new library: float32, float16 (default) or int8.")
    ] = None,
    durability: options.Durability = "sync",
    max_decompressed_mb: options.MaxDecompressed = 1024,
    as_json: options.AsJson = False,
) -> None:
    """Read documents and store their memories. A document that is printed is on disk.

    After an interruption the same command continues: unchanged documents are skipped.

    attar add stories novels/ emma.txt
    """
    from attar.library import Library, find_files, read_files

    skipped: list[str] = []

    def skip(fault: AttarError) -> None:
        skipped.append(str(fault))
        print(f"{error_line(fault)} (skipped)", file=sys.stderr)

    on_bad = skip if skip_bad else None
    changes: list[Change] = []
    sources = [] if files == [_STDIN] else find_files(files, on_bad)
    with adding_bar(sum(source.bytes for source in sources)) as bar:

        def added(change: "Change") -> None:
            changes.append(change)
            bar.document_added()
            if not as_json:
                print_change(change, as_json=False)

        limit = max_decompressed_mb * 2**20
        drafts = (
            _stdin_draft(name) if files == [_STDIN] else read_files(sources, on_bad, bar.files_read, limit)
        )
        drafts = drafts if name is None else [_only_draft(drafts, name)]
        with Library(
            store,
            reader,
            dtype=dtype,
            durability=durability,  # type: ignore[arg-type]  # the store checks it
            keep_text=keep_text,
        ) as library:
            note_reader(library.store, store, reader)
            try:
                library.add_many(
                    drafts, replace=replace, shared_names=together, on_change=added, progress=bar.tokens_read
                )
            except KeyboardInterrupt:
                kept = f"{len(changes):,} documents are in the library"
                print(f"attar: stopped; {kept}, and the same command continues from there", file=sys.stderr)
                raise typer.Exit(130) from None
    if as_json:
        print_json({"documents": changes, "skipped": skipped})
    elif len(changes) != 1:
        counts = Counter(change.change for change in changes)
        print(", ".join(f"{count:,} {change}" for change, count in counts.items()) or "no documents")
    if skipped:
        raise typer.Exit(2)


def append(
    store: options.StorePath,
    name: options.Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text file; - for stdin.")],
    reader: options.ReaderPath = None,
    durability: options.Durability = "sync",
    max_decompressed_mb: options.MaxDecompressed = 1024,
    as_json: options.AsJson = False,
) -> None:
    """Add text to the end of a document.

    attar append stories emma chapter2.txt
    """
    from attar.library import Library, find_document, find_files, read_files

    limit = max_decompressed_mb * 2**20
    drafts = _stdin_draft(name) if file == _STDIN else read_files(find_files([file]), max_bytes=limit)
    draft = _only_draft(drafts, name)
    library = Library(store, reader, durability=durability, create=False)  # type: ignore[arg-type]
    with library, progress_bar() as progress:
        note_reader(library.store, store, reader)
        change = library.append(find_document(library.store, name), draft.text, progress=progress)
    print_change(change, as_json=as_json)


def _stdin_draft(name: str | None) -> "Iterable[Draft]":
    from attar.library import Draft
    from attar.text import decode_text

    if name is None:
        raise OptionError("name", "--name NAME for a text from stdin", "none")
    return [Draft.of(name, decode_text(sys.stdin.buffer.read(), "stdin"))]


def _only_draft(drafts: "Iterable[Draft]", name: str) -> "Draft":
    """The only document there must be, under a name."""
    found = list(drafts)
    if len(found) != 1:
        raise OptionError("files", f"one document to be {name!r}", f"{len(found):,}", "name one text file")
    return found[0]._replace(name=name)
