"""`attar watch`: a library that follows a folder."""

import signal
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.add import AddOptions
from attar.cli.output import error_line, print_change, print_json, printable, shown

if TYPE_CHECKING:
    from attar.results import Change, FolderChanges


@options.options_from(AddOptions, omit=("name", "replace", "sync", "actors", "threads", "gpus"))
def watch(
    store: options.StorePath,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder whose files are followed.")],
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Follow a folder: bring the library in line with it, then add, replace and remove what changes; Ctrl+C stops it.

    It runs on one thread and lets other programs have the processor first. If the folder is gone, it ends, and the
    documents stay.

    attar watch papers ~/Documents/letters
    """
    from attar.progress import StoppedError, stopped_by_signals, yield_to_others

    yield_to_others()
    from attar.library.folders import follow
    from attar.library.library import Library

    chosen = AddOptions(**given)
    with (
        ExitStack() as stack,
        suppress(StoppedError),
        stopped_by_signals(signal.SIGINT, signal.SIGTERM) as stop,
    ):
        opened: list[Library] = []

        def library() -> Library:
            if not opened:
                made = Library(store, reader, keep_text=chosen.keep_text, budget=chosen.budget)
                opened.append(stack.enter_context(made))
            return opened[0]

        rounds = follow(
            library,
            folder,
            limits=chosen.limits,
            tags=chosen.tag or None,
            on_change=None if as_json else _print_change,
            stop=stop,
        )
        _say(f"bringing {store} in line with {folder}")
        for number, done in enumerate(rounds):
            _print_round(done, as_json=as_json, is_first=not number)
            if not number:
                _say(f"watching {folder}; stop with Ctrl+C")
    _say(f"stopped; {store} stays as it is, and the same command continues from there")


def _print_change(change: "Change") -> None:
    if change.change != "unchanged":
        print_change(change, as_json=False)


def _print_round(done: "FolderChanges", *, as_json: bool, is_first: bool) -> None:
    if as_json:
        print_json(done)
        sys.stdout.flush()
        return
    for name in done.removed:
        print(f"removed {shown(name)}", flush=True)
    if is_first:
        counts: Counter[str] = Counter(change.change for change in done.changes)
        counts += Counter({"removed": len(done.removed), "not added": len(done.refused)})
        print(", ".join(f"{count:,} {what}" for what, count in counts.items()) or "no documents", flush=True)
    for line in done.skipped:
        _say(f"skipped {line}")
    for line in done.refused:
        print(error_line(Exception(line)), file=sys.stderr, flush=True)


def _say(line: str) -> None:
    print(f"attar: {printable(line)}", file=sys.stderr, flush=True)
