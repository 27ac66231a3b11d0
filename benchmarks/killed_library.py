"""The kinds `edits`, `sync` and `shard` of `benchmarks.crash`: what people and programs do with a whole library.

`edits` has a server beside it all the time, which must show the same as the store. `sync` is the command, with the
process that reads its files. `shard` splits a library and joins it again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import quote

from attar.cli.main import make_app
from attar.cluster.shards import is_sharded, shard_paths, split
from attar.library.library import Library
from attar.memory.phrases import JOINT
from attar.reader.reader import Reader
from attar.store.parquet import export_store, import_store
from attar.store.store import Store
from benchmarks import killed
from benchmarks.killed import PAIR, Announcer, Change

_SHORT = ("a", "b")
_IMPORTED = {f"imported-{number}": f"Then Ann{number} left the house." for number in range(4)}
_FILES = 4
_reader: list[Reader] = []


def prepare(folder: Path) -> None:
    """Load the reader that the server of these kinds has, and write a file to import."""
    _reader.append(Reader.load(folder / killed.SERVER_READER))
    with Library(folder / "edited", _reader[0]) as library:
        library.add_many(_IMPORTED.items())
        export_store(library.store, folder / "edits.parquet")
        library.ask_all("Who left?")  # imports what every fork would


def edit(folder: Path, start: int, pipe: int) -> None:
    """Add, append, replace, merge, import, refit and remove, until killed."""
    announce = Announcer(pipe)
    library = Library(folder, _reader[0])
    known = {name: library.text(name) or "" for name in _SHORT if name in library}

    def add(number: int) -> tuple[Change, Callable[[], object]]:
        known.update(dict.fromkeys(_SHORT, f"Then Ann{number} met Bob{number}."))
        change = dict(known)
        return change, lambda: library.add_many(change.items(), replace=True)

    def append(number: int) -> tuple[Change, Callable[[], object]]:
        text = f"Then Bob{number} left."
        known["a"] += JOINT + text
        return {"a": known["a"]}, lambda: library.append("a", text)

    def merge(number: int) -> tuple[Change, Callable[[], object]]:
        both = JOINT.join(known[name] for name in _SHORT)
        return {"both": both}, lambda: library.merge("both", _SHORT, replace=True)

    def take(number: int) -> tuple[Change, Callable[[], object]]:
        file = folder.with_name("edits.parquet")
        return dict(_IMPORTED), lambda: import_store(library.store, file, replace=True)

    def refit(number: int) -> tuple[Change, Callable[[], object]]:
        return {}, library.refit

    def remove(number: int) -> tuple[Change, Callable[[], object]]:
        gone = [name for name in ("both", "imported-0") if name in library]
        return dict.fromkeys(gone), lambda: library.remove(*gone)

    edits = (add, append, merge, take, append, refit, remove)
    for number in count(start):
        # After a kill nothing is known to append to.
        make = edits[number % len(edits)] if len(known) == len(_SHORT) else add
        announce.change(*make(number))


class ServerWatcher:
    """Reads all documents over HTTP, and asks them all; every call is one look."""

    def __init__(self, server: int, port: int) -> None:
        self._connection = killed.connected(server, port)

    def __call__(self) -> dict[str, str]:
        """Every document's text, as the server shows it."""
        texts = {}
        listed = json.loads(killed.answer(self._connection, "GET", "/v1/documents?limit=1000") or b"{}")
        for name in (document["name"] for document in listed["documents"]):
            path = f"/v1/documents/{quote(name, safe='')}"
            shown = killed.answer(self._connection, "GET", path, may_lack=True)
            if shown is not None:  # None: it was removed since it was listed
                texts[name] = json.loads(shown)["text"]
        if texts:
            killed.answer(self._connection, "POST", "/v1/ask", {"question": "Who met Bob?"})
        return texts


def sync(folder: Path, start: int, pipe: int) -> None:
    """Write, change and remove files, and run `attar add --sync`, until killed."""
    files = folder.with_name("synced")
    files.mkdir(exist_ok=True)
    reader = folder.parent / killed.SERVER_READER
    for number in count(start):
        announcers = [Announcer(pipe, writer) for writer in range(_FILES)]
        for at, announce in enumerate(announcers):
            file = files / f"{at}.txt"
            text = None if (number + at) % 3 == 0 else f"Then Ann{number} met Bob{at}."
            if text is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(text)
            announce.tell({file.stem: text})
        command = ["add", str(folder), str(files), "--sync", "--reader", str(reader)]
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            make_app("add")(command, standalone_mode=False)
        for announce in announcers:
            announce.tell(None)


def shard(folder: Path, start: int, pipe: int) -> None:
    """Change documents, split their library into three, and join it again, until killed."""
    announce = Announcer(pipe)
    store = Store.open(folder)
    for number in count(start):
        change: dict[str, str | None] = dict.fromkeys(PAIR, str(number))
        announce.change(change, partial(killed.apply, store, change))
        texts = {str(entry.name): str(store.get(str(entry.name)).text) for entry in store.documents()}
        for name, source, into in (("split", folder, 3), ("joined", folder.with_name("split"), 1)):
            place = folder.with_name(name)
            if place.exists():
                announce.change({name: None}, partial(_remove, place))
            announce.change({name: _digest(texts)}, partial(split, source, place, into))


def _remove(folder: Path) -> None:
    """Remove a library in one step: half of one must not be found."""
    gone = folder.with_name(f"{folder.name}-gone")
    shutil.rmtree(gone, ignore_errors=True)
    os.replace(folder, gone)


def _digest(texts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()


def copies(folder: Path, read: Callable[[Store], dict[str, str]]) -> dict[str, str]:
    """The digests of the libraries that `shard` has made of the one in this folder."""
    found = {}
    for name in ("split", "joined"):
        place, texts = folder.with_name(name), dict[str, str]()
        if place.exists():
            for path in shard_paths(place) if is_sharded(place) else [place]:
                with Store.open(path, create=False) as store:
                    texts |= read(store)
            found[name] = _digest(texts)
    return found
