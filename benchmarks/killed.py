"""What the processes do that `benchmarks.crash` kills. Each says down a pipe what it begins and what was acknowledged.

An event is a line of JSON: `[writer, {name: text or null, …}]` before a change, all of whose documents are written or
none, and `[writer, null]` once the store has acknowledged it. Documents written here are one number throughout: as
text, as the scale of every vector of the memory, as its count of tokens, and as its signature. So a torn one is known
at sight.
"""

import http.client
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from attar.errors import BusyError
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex
from attar.options import PhraseOptions
from attar.store.parquet import export_store, import_store
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store
from benchmarks.tiny_reader import save_tiny_reader

Change = Mapping[str, str | None]
PAIR = ("left", "right/" + "x" * 600)  # the second has a key that is cut and hashed
READER = "reader-1"
# Between these a library is moved to and fro.
READERS = ("reader-2", "reader-3")
# The folder of the reader that servers have.
SERVER_READER = "server reader"
_IMPORTS, _IMPORTED = 8, 12  # files, and documents in each


def with_change(texts: dict[str, str], change: Change) -> dict[str, str]:
    """Documents after a change.

    >>> with_change({"a": "1", "b": "2"}, {"a": None, "c": "3"})
    {'b': '2', 'c': '3'}
    """
    after = texts | {name: text for name, text in change.items() if text is not None}
    return {name: text for name, text in after.items() if change.get(name, "") is not None}


def memory_of(number: int, reader: str = READER) -> Memory:
    """A memory that is this number throughout; some have pages of their own, some share one."""
    count = 1 if number % 3 else 60
    index = PhraseIndex.of(
        "0" * count, [(at, at + 1, 0, 0.0) for at in range(count)], [(0, count)], [[number % 9]]
    )
    vectors = np.full((count, 32), float(number), np.float32)
    return Memory.quantized(vectors, form="phrases", phrases=index, tokens=number, reader=reader)


class NumberReader:
    """Reads the texts that are written here; two of them differ by their fingerprint only."""

    # It has no statistics for search, whatever the shape.
    folder, options = None, PhraseOptions()

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def read_many(self, texts: Sequence[str], **options: object) -> list[Memory]:
        """The memories of numbers."""
        return [memory_of(int(text), self.fingerprint) for text in texts]


def is_torn(text: str, memory: Memory) -> bool:
    """Whether a document written here is of two writings."""
    return not (text == str(memory.tokens) and bool((memory.scales == float(memory.tokens)).all()))


class Announcer:
    """Tells the driver of changes."""

    def __init__(self, pipe: int, writer: int = 0) -> None:
        self.pipe, self.writer = pipe, writer

    def tell(self, change: Change | None) -> None:
        """Announce a change, or tell that it was made."""
        # Less than a pipe writes at once, so that no line is cut by a kill.
        os.write(self.pipe, json.dumps([self.writer, change]).encode() + b"\n")

    def change(self, change: Change, make: Callable[[], object]) -> None:
        """Announce a change, make it, and tell that it was acknowledged."""
        self.tell(change)
        make()
        self.tell(None)


def write(folder: Path, start: int, pipe: int) -> None:
    """Change three documents in each transaction, until killed."""
    announce = Announcer(pipe)
    store = Store.open(folder)
    for number in count(start):
        change: dict[str, str | None] = dict.fromkeys(PAIR, str(number))
        # Pages come and go: space is used again all the time.
        other = f"other-{number % 7}"
        change[other] = None if other in store else str(number)
        announce.change(change, partial(apply, store, change))


def apply(store: Store, change: Change) -> None:
    """Put and remove documents in one transaction."""
    with store.transaction() as changes:
        for name, text in change.items():
            if text is None:
                changes.remove(name)
            else:
                record = Record.of(
                    DocumentEntry(name=name), memory_of(int(text)), text=text, signature=text.encode()
                )
                changes.put(record, reader=READER, replacing=changes.find(name))


def compact(folder: Path, start: int, pipe: int) -> None:
    """Change a document and compact, until killed."""
    announce = Announcer(pipe)
    store = Store.open(folder)
    for number in count(start):
        change = {f"other-{number % 7}": str(number)}
        announce.change(change, partial(apply, store, change))
        with suppress(BusyError):
            store.compact()


def reread(folder: Path, start: int, pipe: int) -> None:
    """Change documents and move the library to the other reader, until killed; each goes on where it was."""
    announce = Announcer(pipe)
    with Store.open(folder) as store:
        at = READERS.index(store.reader or READERS[0])
    for number in count(start):
        own, other = NumberReader(READERS[at]), NumberReader(READERS[1 - at])
        library = Library(folder, own)  # type: ignore[arg-type]
        with library:
            for name in (f"other-{number % 7}", f"more-{number % 11}"):
                put = partial(library.add, name, str(number), replace=True)
                announce.change({name: str(number)}, put)
            library.reread(other)  # type: ignore[arg-type]
        at = 1 - at


def prepare_imports(folder: Path) -> None:
    """Write files that replace each other's documents."""
    folder.mkdir(parents=True)
    for at in range(_IMPORTS):
        with Store.open(folder / "made") as store:
            apply(store, _imported(at))
            export_store(store, folder / f"{at}.parquet")
            for entry in list(store.documents()):
                with store.transaction() as changes:
                    changes.remove(str(entry.name))


def _imported(at: int) -> dict[str, str | None]:
    return {f"import-{at % 4}-{number}": str(1000 * at + number) for number in range(_IMPORTED)}


def import_files(folder: Path, start: int, pipe: int) -> None:
    """Import file after file, until killed; each is one transaction."""
    announce = Announcer(pipe)
    store = Store.open(folder)
    for number in count(start):
        at = number % _IMPORTS
        file = folder.with_name("imports") / f"{at}.parquet"
        announce.change(_imported(at), partial(import_store, store, file, replace=True))


def prepare_server(folder: Path) -> None:
    """Write a small reader, and load what a server needs: forks of this process have it."""
    from attar.server import app, run  # noqa: F401

    save_tiny_reader(folder / SERVER_READER)


def serve(folder: Path, port: int) -> None:
    """Serve a library that keeps its texts, until killed."""
    from attar.server.run import serve as run
    from attar.server.settings import Address, Settings

    reader = folder.parent / SERVER_READER
    run(Settings(store=folder, reader=reader, keep_text=True, log_level="error"), Address(port=port))


def request(server: int, port: int, start: int, pipe: int, writer: int, texts: Mapping[str, str]) -> None:
    """Put, append to and remove documents over HTTP, some by jobs, until the server process is gone."""
    announce, known = Announcer(pipe, writer), dict(texts)
    try:
        connection = connected(server, port)
    except ProcessLookupError:
        return
    for number in count(start):
        name, text = f"{writer}-{number % 5}", f"Then Ann{number} met Bob{number}."
        if name not in known or number % 3 == 0:
            method, path, body, after = "PUT", "", {"text": text}, text
        elif number % 3 == 1:
            method, path, body, after = "POST", "/append", {"text": text}, known[name] + "\n\n" + text
        else:
            method, path, body, after = "DELETE", "", None, None
        path = f"/v1/documents/{name}{path}"
        as_job = number % 4 == 0 and body is not None
        try:
            announce.change({name: after}, partial(answer, connection, method, path, body, as_job))
        except (OSError, http.client.HTTPException):
            return
        known.pop(name, None)
        if after is not None and len(after) < 2000:
            known[name] = after


def connected(server: int, port: int) -> http.client.HTTPConnection:
    """A connection to a server that is starting."""
    for _ in range(3000):
        os.kill(server, 0)  # raises once it is gone
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.connect()
            return connection
        except ConnectionError:  # refused, or reset by a server that is killed at this moment
            time.sleep(0.01)
    raise TimeoutError("the server did not start")


def answer(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    as_job: bool = False,
    may_lack: bool = False,
) -> bytes | None:
    """Send a request; the answer to it, None if the document may lack, and does; a job is waited for."""
    data = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"} if data else {}
    connection.request(method, path, data, headers | ({"Prefer": "respond-async"} if as_job else {}))
    reply = connection.getresponse()
    told = reply.read()
    if may_lack and reply.status == 404:
        return None
    if not 200 <= reply.status < 300:
        raise AssertionError(f"{method} {path}: status {reply.status}: {told[:200]!r}")
    if reply.status == 202:
        while (state := json.loads(told)["state"]) in ("waiting", "running"):
            time.sleep(0.005)
            connection.request("GET", str(reply.headers["location"]))
            told = connection.getresponse().read()
        if state != "done":
            raise AssertionError(f"{method} {path}: the job is {state}: {told[:200]!r}")
    return told
