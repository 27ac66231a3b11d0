"""`attar add`, `attar watch` and `attar append`: text into a library."""

import signal
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import (
    change_line,
    note_line,
    print_json,
    print_note,
    print_result,
    progress_bar,
    shown,
)
from attar.errors import AttarError, OptionError
from attar.options import FileLimits, option
from attar.progress import Progress

if TYPE_CHECKING:
    from attar.documents.sources import FoundFiles
    from attar.library.drafts import Draft
    from attar.library.library import Library
    from attar.results import Change, FolderChanges

_STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class AddOptions:
    """How `attar add` adds documents."""

    name: str | None = option(None, "Name of the document, if there is only one; required for stdin.")
    replace: bool = option(False, "Replace what has this name already.")
    tag: tuple[str, ...] = option((), "Tag of the documents, to ask only these; may be repeated.")
    sync: bool = option(False, "Remove documents of these folders whose files are gone.")
    keep_text: bool = option(True, "Keep the text, compressed, to quote from.", "--no-text")
    budget: int | None = option(
        None,
        "Maximum size of each memory in bytes, also after attar append; phrases least likely to be asked about are "
        "dropped first.",
        min=1,
    )
    device: str | None = option(None, "Where texts are read: cpu or cuda; with --ray, one GPU per actor.")
    actors: int | None = option(
        None, "With --ray: processes that read; as many as there are CPUs, or GPUs, by default.", min=1
    )

    def open_library(self, store: Path, reader: Path | None) -> "Library":
        """The library to add to; a missing one is created."""
        from attar.library.library import Library

        return Library(store, reader, keep_text=self.keep_text, budget=self.budget, device=self.device)


class _Report:
    """What has been added and what has not: printed document by document, or as JSON at the end."""

    def __init__(self, as_json: bool) -> None:
        from attar.results import FolderChanges

        self.as_json = as_json
        self.done = FolderChanges([], [], [], [])

    def add(self, change: "Change") -> None:
        self.done.changes.append(change)
        if not self.as_json:
            _print_change(change)

    def refuse(self, fault: AttarError) -> None:
        self.done.refused.append(str(fault))

    def print_end(self) -> None:
        """Print what was done, and what was not; exit with code 2 if a file is bad."""
        done = self.done
        if self.as_json:
            bad = [note_line(line) for line in done.refused]
            lists = {"removed": done.removed, "bad": bad, "skipped": done.skipped}
            print_json({"documents": done.changes, **lists})
        elif len(done.changes) == 1 and not done.removed and not done.refused:
            if done.changes[0].change == "unchanged":
                print(change_line(done.changes[0]))
        elif done.changes or done.removed or not done.refused:
            _print_counts(done)
        _print_not_read(done)
        if done.refused:
            raise typer.Exit(2)


def _print_change(change: "Change") -> None:
    # A folder that is added again is mostly unchanged: its documents are counted at the end.
    if change.change != "unchanged":
        print(change_line(change), flush=True)


def _print_counts(done: "FolderChanges") -> None:
    """Print which documents were removed, and how many were added, unchanged and so on."""
    for name in done.removed:
        print(f"removed {shown(name)}")
    counts: Counter[str] = Counter(change.change for change in done.changes)
    counts += Counter({"removed": len(done.removed), "not added": len(done.refused)})
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()) or "no documents", flush=True)


def _print_not_read(done: "FolderChanges") -> None:
    """Print which files were not read, and why: those that need the same program or package in one line."""
    by_remedy: dict[str, list[str]] = {}
    for line in (*(f"skipped {line}" for line in done.skipped), *done.refused):
        remedy = line.rpartition("; ")[2]
        by_remedy.setdefault(remedy if "install " in remedy else line, []).append(line)
    for first, *others in by_remedy.values():
        more = f" (and {len(others):,} more file{'s' * (len(others) > 1)})" if others else ""
        print_note(first + more)


def _add_options(given: dict[str, Any]) -> tuple[AddOptions, FileLimits]:
    """What the flags of both say."""
    limits = {field.name: given.pop(field.name) for field in fields(FileLimits) if field.name in given}
    return AddOptions(**given), FileLimits(**limits)


@options.options_from(AddOptions)
@options.options_from(FileLimits)
def add(
    store: options.StorePath,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files and folders: text, Markdown, HTML, PDF, documents, slides and tables of Office and "
            "LibreOffice, RTF, EPUB, e-mail, calendars, contacts, JSON, Parquet, archives; - for stdin.",
        ),
    ],
    reader: options.ReaderPath = None,
    ray: options.RayAddress = None,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Read documents and store their memories.

    Each line is printed after the document is saved. Folders are walked; files that cannot be read are listed at the
    end, with exit code 2, and the others are added. The same command again, also after an interruption, adds what is
    new and reads again what changed.

    With --ray, Ray reads in parallel into a library, or its shards.

    attar add stories novels/ contract.pdf
    """
    (chosen, limits), report = _add_options(given), _Report(as_json)
    is_stdin = files == [_STDIN]
    if ray is not None and (chosen.sync or chosen.tag or chosen.name is not None or is_stdin):
        remedy = "leave --sync, --tag, --name and stdin to attar add without --ray"
        raise OptionError("--ray reads files and folders only", remedy)
    from attar.documents.sources import find_files

    if chosen.tag:
        from attar.results import check_labels

        check_labels(chosen.tag, {})
    for file in files:
        if (Path(file) / "data.mdb").is_file():
            raise OptionError(f"{file} is a library, not a document", "name the library first")
    some_may_miss = len(files) > 1 and not chosen.sync and chosen.name is None
    found = find_files(
        [] if is_stdin else files,
        allow_empty=chosen.sync,
        pictures=limits.ocr != "never",
        on_bad=report.refuse if some_may_miss else None,
    )
    if chosen.sync and not found.folders:
        raise OptionError("--sync is for folders", "name a folder")
    report.done.skipped.extend(f"{file.path}: {file.reason}" for file in found.skipped)
    try:
        with progress_bar() as progress:
            if ray is not None:
                from attar.cluster.reading import read_with_ray

                read_with_ray(
                    store,
                    found,
                    address=ray,
                    actors=chosen.actors,
                    device=chosen.device,
                    reader=reader,
                    replace=chosen.replace,
                    limits=limits,
                    progress=progress,
                    on_change=report.add,
                    on_bad=report.refuse,
                    keep_text=chosen.keep_text,
                    budget=chosen.budget,
                )
            else:
                _add_here(store, found, reader, chosen, limits, report, progress, is_stdin)
    except KeyboardInterrupt:
        stored = f"{len(report.done.changes):,} documents are in the library"
        print_note(f"stopped; {stored}, and the same command continues from there")
        raise typer.Exit(130) from None
    report.print_end()


def _add_here(
    store: Path,
    found: "FoundFiles",
    reader: Path | None,
    chosen: AddOptions,
    limits: FileLimits,
    report: _Report,
    progress: Progress,
    is_stdin: bool,
) -> None:
    """Add files that were found, or under the name that is given the only one, or the text from stdin."""
    from attar.documents.workers import FileReader
    from attar.library.drafts import add_files, read_files

    with ExitStack() as stack, FileReader(limits) as file_reader:

        def opened() -> "Library":
            return stack.enter_context(chosen.open_library(store, reader))

        if is_stdin or chosen.name is not None:
            read = read_files(found.files, reader=file_reader)
            draft = _stdin_draft(chosen.name) if is_stdin else _only_draft(read, str(chosen.name))
            opened().add_many(
                [draft.tagged(chosen.tag or None)],
                replace=chosen.replace,
                on_change=report.add,
                on_refused=report.refuse,
                progress=progress,
            )
            return
        added = add_files(
            opened,
            found,
            files=file_reader,
            tags=chosen.tag or None,
            replace=chosen.replace,
            # Without a document to add, nothing is created and no reader is loaded.
            sync=chosen.sync and store.exists(),
            on_change=report.add,
            on_refused=report.refuse,
            progress=progress,
        )
        report.done.removed.extend(added.removed)


def append(
    store: options.StorePath,
    name: options.Name,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of any kind that `attar add` reads; - for stdin.")
    ],
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Add text to the end of a document.

    attar append stories emma chapter2.txt
    """
    from attar.documents.sources import find_files
    from attar.documents.workers import FileReader
    from attar.library.documents import find_document
    from attar.library.drafts import read_files
    from attar.library.library import Library

    if str(file) == _STDIN:
        draft = _stdin_draft(name)
    else:
        with FileReader() as file_reader:
            draft = _only_draft(read_files(find_files([file]).files, reader=file_reader), name)
    with Library(store, reader, create=False) as library, progress_bar() as progress:
        change = library.append(find_document(library.store, name), draft, progress=progress)
    print_result(change, change_line(change), as_json=as_json)


def _stdin_draft(name: str | None) -> "Draft":
    from attar.documents.plain import decode_text
    from attar.library.drafts import Draft

    if name is None:
        raise OptionError("a text from stdin needs a name", "add --name NAME")
    return Draft.of(name, decode_text(sys.stdin.buffer.read(), "stdin"))


def _only_draft(drafts: "Iterable[Draft]", name: str) -> "Draft":
    """The only document there must be, under a name."""
    documents = list(drafts)
    if len(documents) != 1:
        raise OptionError(
            f"{len(documents):,} documents cannot have the one name {name!r}", "name one text file"
        )
    return documents[0].renamed(name)


@options.options_from(AddOptions, omit=("name", "replace", "sync", "actors"))
@options.options_from(FileLimits)
def watch(
    store: options.StorePath,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder whose files are followed.")],
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Keep the library up to date with a folder.

    Documents are added, replaced and removed as files change; Ctrl+C stops it. It runs on one thread, with low
    priority. If the folder is gone, it ends, and the documents stay.

    attar watch papers ~/Documents/letters
    """
    from attar.progress import StoppedError, stopped_by_signals, yield_to_others

    yield_to_others()
    from attar.library.drafts import follow

    chosen, limits = _add_options(given)
    with (
        ExitStack() as stack,
        suppress(StoppedError),
        stopped_by_signals(signal.SIGINT, signal.SIGTERM) as stop,
    ):

        @cache
        def opened() -> "Library":
            return stack.enter_context(chosen.open_library(store, reader))

        rounds = follow(
            opened,
            folder,
            limits=limits,
            tags=chosen.tag or None,
            on_change=None if as_json else _print_change,
            stop=stop,
        )
        print_note(f"bringing {store} in line with {folder}")
        for number, done in enumerate(rounds):
            _print_round(done, as_json=as_json, is_first=not number)
            if not number:
                print_note(f"watching {folder}; stop with Ctrl+C")
    print_note(f"stopped; {store} stays as it is, and the same command continues from there")


def _print_round(done: "FolderChanges", *, as_json: bool, is_first: bool) -> None:
    if as_json:
        print_json(done)
        return
    if is_first:
        _print_counts(done)
    else:
        for name in done.removed:
            print(f"removed {shown(name)}", flush=True)
    _print_not_read(done)
