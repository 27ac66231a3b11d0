"""`attar add` and `attar append`: text into a library."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import (
    adding_bar,
    error_line,
    note_reader,
    print_change,
    print_json,
    printable,
    progress_bar,
    shown,
)
from attar.errors import AttarError, OptionError

if TYPE_CHECKING:
    from attar.library import Draft
    from attar.results import Change

_STDIN = "-"


def add(
    store: options.StorePath,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files and folders: text, Markdown, HTML, PDF, DOCX, EPUB, e-mail, CSV, XLSX, JSON, Parquet, "
            "archives; - for stdin; with --ray also URLs such as s3://BUCKET/FOLDER.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the document, if there is only one; required for stdin.")
    ] = None,
    replace: options.Replace = False,
    sync: Annotated[
        bool, typer.Option("--sync", help="Remove documents of these folders whose files are gone.")
    ] = False,
    together: Annotated[
        bool,
        typer.Option("--together", help="Share one table of names, so that the documents can be merged."),
    ] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text/--no-text", help="Keep the text, compressed, to quote from.")
    ] = True,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="BYTES",
            help="Most bytes of each memory, also after attar append; what is least likely to be asked about is "
            "dropped.",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="No effect: bad files are always skipped.", hidden=True)
    ] = False,
    reader: options.ReaderPath = None,
    dtype: Annotated[
        str | None, typer.Option(help="Data type of a new library: float32, float16 (default) or int8.")
    ] = None,
    durability: options.Durability = "sync",
    max_decompressed_mb: options.MaxDecompressed = 1024,
    ray: options.RayAddress = None,
    actors: Annotated[
        int | None, typer.Option(min=1, help="With --ray: processes that read; all CPUs by default.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="With --ray: threads of each.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="With --ray: GPUs of each, such as 1 or 0.5.")] = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Read documents and store their memories. A document that is printed is on disk.

    Folders are walked; files that cannot be read are listed at the end, with exit code 2, and the others are added.
    The same command again, also after an interruption, adds what is new and reads again what changed.

    With --ray, many processes or machines read, into a library, one in shards, or a .parquet file.

    attar add stories novels/ contract.pdf
    """
    from attar.documents import FoundFiles, find_files
    from attar.library import Library, gone_documents, read_files

    if skip_bad:
        print("attar: --skip-bad has no effect any more; it goes away in 0.3", file=sys.stderr)
    bad: list[str] = []
    changes: list[Change] = []
    removed: list[str] = []
    read: dict[str, tuple[str, set[str]]] = {}

    def is_bad(fault: AttarError) -> None:
        bad.append(error_line(fault))

    def added(change: "Change") -> None:
        changes.append(change)
        bar.document_added()
        if not as_json:
            print_change(change, as_json=False)

    limit = max_decompressed_mb * 2**20
    opened: Any = {"dtype": dtype, "durability": durability, "keep_text": keep_text}
    opened["budget"] = budget
    if ray is not None:
        if sync or together or name is not None or files == [_STDIN]:
            remedy = "leave --sync, --together, --name and stdin to attar add without --ray"
            raise OptionError("--ray", "files, folders and URLs to read", "another option with it", remedy)
        from attar.cluster import Workers, encode, find_sources

        sources = find_sources(files)
        skipped = sources.skipped
        told: Any = {"on_change": added, "on_bad": is_bad, "max_bytes": limit}
        with adding_bar(sources.size) as bar, _stopping(changes):
            told["progress"] = lambda _, done, total: bar.files_read(min(done, total))
            workers = Workers(actors, threads, gpus)
            encode(
                store, sources, address=ray, workers=workers, reader=reader, replace=replace, **told, **opened
            )
    else:
        found = FoundFiles([], [], []) if files == [_STDIN] else find_files(files)
        skipped = found.skipped
        if sync and not found.folders:
            raise OptionError("--sync", "a folder", "files only")
        with adding_bar(sum(file.bytes for file in found.files)) as bar, _stopping(changes):
            drafts = read_files(found.files, is_bad, bar.files_read, limit, read)
            if files == [_STDIN]:
                drafts = iter([_stdin_draft(name)])
            elif name is not None:
                drafts = iter([] if bad else [_only_draft(drafts, name)])
            # Without a document to add, nothing is created and no reader is loaded.
            first = next(drafts, None)
            if first is not None or (sync and store.exists()):
                with Library(store, reader, **opened) as library:
                    note_reader(library.store, store, reader)
                    library.add_many(
                        chain([] if first is None else [first], drafts),
                        replace=replace,
                        shared_names=together,
                        on_change=added,
                        on_refused=None if together else is_bad,
                        progress=bar.tokens_read,
                    )
                    if sync:
                        removed = gone_documents(library.store, found.folders, read)
                        library.remove(*removed)
    _print_end(changes, removed, bad, [f"{file.path}: {file.reason}" for file in skipped], as_json)


@contextmanager
def _stopping(changes: "list[Change]") -> Iterator[None]:
    """Say what was kept when the user stops it."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"{len(changes):,} documents are in the library"
        print(f"attar: stopped; {kept}, and the same command continues from there", file=sys.stderr)
        raise typer.Exit(130) from None


def _print_end(
    changes: "list[Change]", removed: list[str], bad: list[str], skipped: list[str], as_json: bool
) -> None:
    """Print what was done, and what was not; exit with code 2 if a file is bad."""
    if as_json:
        print_json({"documents": changes, "removed": removed, "bad": bad, "skipped": skipped})
    elif changes or removed or not bad:
        _print_counts(changes, removed)
    for line in (*(f"attar: skipped {printable(line)}" for line in skipped), *bad):
        print(line, file=sys.stderr)
    if bad:
        raise typer.Exit(2)


def _print_counts(changes: "list[Change]", removed: list[str]) -> None:
    for each in removed:
        print(f"removed {shown(each)}")
    if len(changes) != 1 or removed:
        counts = Counter(change.change for change in changes) + Counter({"removed": len(removed)})
        print(", ".join(f"{count:,} {change}" for change, count in counts.items()) or "no documents")


def append(
    store: options.StorePath,
    name: options.Name,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of any kind that `attar add` reads; - for stdin.")
    ],
    reader: options.ReaderPath = None,
    durability: options.Durability = "sync",
    max_decompressed_mb: options.MaxDecompressed = 1024,
    as_json: options.AsJson = False,
) -> None:
    """Add text to the end of a document.

    attar append stories emma chapter2.txt
    """
    from attar.documents import find_files
    from attar.library import Library, find_document, read_files

    if str(file) == _STDIN:
        draft = _stdin_draft(name)
    else:
        limit = max_decompressed_mb * 2**20
        draft = _only_draft(read_files(find_files([file]).files, max_bytes=limit), name)
    library = Library(store, reader, durability=durability, create=False)  # type: ignore[arg-type]
    with library, progress_bar() as progress:
        note_reader(library.store, store, reader)
        change = library.append(find_document(library.store, name), draft, progress=progress)
    print_change(change, as_json=as_json)


def _stdin_draft(name: str | None) -> "Draft":
    from attar.documents import decode_text
    from attar.library import Draft

    if name is None:
        raise OptionError("name", "--name NAME for a text from stdin", "none")
    return Draft.of(name, decode_text(sys.stdin.buffer.read(), "stdin"))


def _only_draft(drafts: "Iterable[Draft]", name: str) -> "Draft":
    """The only document there must be, under a name."""
    found = list(drafts)
    if len(found) != 1:
        raise OptionError("files", f"one document to be {name!r}", f"{len(found):,}", "name one text file")
    return found[0]._replace(name=name)
