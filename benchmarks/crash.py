"""Kills writers, imports, rereads, servers and more at random moments, and verifies what they leave: `make crash`.

Everything runs in forks of one process that has loaded what they need, so that a kill costs milliseconds; it never
has a store open while it forks. What was begun and acknowledged comes down a pipe and is written to a log outside the
store, synced to the disk before anything is verified. After each kill:

- the store opens, and has exactly the acknowledged documents, with the change that was under way made whole or not at
  all; no document is torn or of another reader than the store, and every fifth time `store check` reads all pages and
  records;
- where another process has the store open all the time (`observed`), that process sees one of the same two states,
  and a process that opens the store then sees what it will still see after a write was begun and ended;
- where it searches all the time (`search`), it finds what a new index finds, and one that is made of the log;
- where a server has the library open all the time (`edits`), it shows the same as the store;
- copies of a library (`shard`) are whole, or not there.
"""

import gc
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from attar.store.store import Store
from benchmarks import killed, killed_library, killed_search
from benchmarks.command import run_command
from benchmarks.crash_states import Ledger, Watcher, difference, read_texts
from benchmarks.server import free_port

KINDS = (
    "writer", "observed", "compaction", "import", "reread", "edits", "sync", "shard", "search", "server",
)  # fmt: skip
_WORK = {
    "compaction": killed.compact,
    "import": killed.import_files,
    "reread": killed.reread,
    "edits": killed_library.edit,
    "sync": killed_library.sync,
    "shard": killed_library.shard,
    "search": killed_search.write,
}
# Seconds after the first acknowledgement, at most; every fourth is killed so long after its start instead.
_LATEST = {"compaction": 0.03, "import": 0.06, "reread": 0.1, "search": 0.5, "server": 0.06}
_LATEST |= {"edits": 0.1, "sync": 1.0, "shard": 0.3}
_CLIENTS = 2
_CHECKED = 5


@dataclass
class Tally:
    """The kills of one kind, the changes acknowledged before them, and what was wrong afterwards."""

    kills: int = 0
    changes: int = 0
    faults: list[str] = field(default_factory=list)


def fork(work: Callable[..., object], *arguments: object) -> int:
    """Do it in a fork that never comes back."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            work(*arguments)
            os._exit(0)
        except BaseException as fault:
            print(f"{getattr(work, '__name__', work)}: {fault!r}", file=sys.stderr, flush=True)
        os._exit(2)
    return child


class Crashes:
    """Kills processes of each kind, each with a store of its own, below one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        torch.set_num_threads(1)
        self.folder, self.moments = folder, random.Random(seed)
        self.tallies = {kind: Tally() for kind in KINDS}
        self.ledgers = {kind: Ledger((folder / f"{kind}.log").open("w")) for kind in KINDS}
        killed.prepare_imports(folder / "imports")
        killed.prepare_server(folder)
        killed_library.prepare(folder)
        # Not traversed, and so not copied, by the collector of any fork.
        gc.collect()
        gc.freeze()
        for kind in KINDS[:-1]:
            Store.open(folder / kind).close()

    @contextmanager
    def observer(self, watch: Callable[[], Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
        """A process that has the store open and looks all the time; call it for what it sees."""
        asked, ask = os.pipe()
        answered, answer = os.pipe()

        def observe() -> None:
            os.close(ask)
            look = watch()
            while True:
                look()
                if select.select([asked], [], [], 0)[0]:
                    if not os.read(asked, 1):
                        return
                    found = json.dumps(look()).encode()
                    os.write(answer, len(found).to_bytes(4, "little") + found)

        child = fork(observe)
        os.close(asked)
        os.close(answer)

        def see() -> Any:
            os.write(ask, b"?")
            with open(answered, "rb", closefd=False) as pipe:
                size = int.from_bytes(pipe.read(4), "little")
                found = json.loads(pipe.read(size) or b"null")
            if found is None:
                raise AssertionError("a process that had the store open saw half a change, or failed")
            return found

        try:
            see()  # it has opened the store
            yield see
        finally:
            os.close(ask)
            os.close(answered)
            os.waitpid(child, 0)

    def kill(self, kind: str) -> None:
        """Kill once, and verify."""
        tally = self.tallies[kind]
        with suppress(AssertionError), self.noting(kind), ExitStack() as beside:
            see: Callable[[], Any] | None = None
            if kind == "observed":
                see = beside.enter_context(self.observer(lambda: Watcher(self.folder / kind)))
            elif kind == "search":
                killed_search.prepare()
                see = beside.enter_context(self.observer(lambda: killed_search.Searcher(self.folder / kind)))
            elif kind == "edits":
                server = beside.enter_context(self.serving(kind))
                see = beside.enter_context(self.observer(lambda: killed_library.ServerWatcher(*server)))
            if kind == "server":
                self._kill_server()
            else:
                self._kill_writer(kind)
            self._verify(kind, None if kind == "search" else see)
            if kind == "search" and see is not None:
                self._search(see)
        tally.kills += 1
        tally.changes = self.ledgers[kind].changes

    @contextmanager
    def noting(self, kind: str) -> Iterator[None]:
        """Note what is raised as a fault of this kind."""
        try:
            yield
        except Exception as fault:
            line = str(fault).splitlines()[0] if str(fault) else repr(fault)
            self.tallies[kind].faults.append(
                f"kill {self.tallies[kind].kills}: {type(fault).__name__}: {line}"
            )
            # The next kill begins from what there is.
            with suppress(Exception), Store.open(self.folder / kind, create=False) as store:
                self.ledgers[kind].settle(read_texts(store))

    def _kill_writer(self, kind: str) -> None:
        ours, theirs = os.pipe()
        start = 1 + self.ledgers[kind].changes
        child = fork(_WORK.get(kind, killed.write), self.folder / kind, start, theirs)
        os.close(theirs)
        self._kill_later(kind, child, ours)

    @contextmanager
    def serving(self, kind: str) -> Iterator[tuple[int, int]]:
        """A server beside the processes that are killed, and its port."""
        port = free_port()
        server = fork(killed.serve, self.folder / kind, port)
        try:
            yield server, port
        finally:
            os.kill(server, signal.SIGTERM)
            os.waitpid(server, 0)

    def _kill_server(self) -> None:
        port = free_port()
        server = fork(killed.serve, self.folder / "server", port)
        ours, theirs = os.pipe()
        ledger = self.ledgers["server"]
        clients = []
        for writer in range(_CLIENTS):
            own = {name: text for name, text in ledger.texts.items() if name.startswith(f"{writer}-")}
            clients.append(fork(killed.request, server, port, ledger.changes, theirs, writer, own))
        os.close(theirs)
        self._kill_later("server", server, ours)
        for client in clients:
            if os.waitpid(client, 0)[1]:
                raise AssertionError("a client got an answer that it should not get")

    def _kill_later(self, kind: str, child: int, pipe: int) -> None:
        """Kill a process at a random moment, and note what it told until then."""
        told = b""
        if self.moments.random() > 0.25:
            while b" null]\n" not in told and select.select([pipe], [], [], 30)[0]:
                told += (more := os.read(pipe, 65536))
                if not more:
                    break
        time.sleep(self.moments.uniform(0, _LATEST.get(kind, 0.03)))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        with os.fdopen(pipe, "rb") as rest:
            self.ledgers[kind].note(told + rest.read())
        if not os.WIFSIGNALED(status):
            raise AssertionError("the process ended by itself")

    def _search(self, see: Callable[[], Any]) -> None:
        """Compare what three indexes find: one that followed the writer, a new one, and one made of the log."""
        ours, theirs = os.pipe()
        folder, texts = self.folder / "search", self.ledgers["search"].texts
        child = fork(killed_search.look_once, folder, texts, theirs)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            told = pipe.read()
        if os.waitpid(child, 0)[1] or not told:
            raise AssertionError("a process that opened the library could not search it")
        fresh, expected = json.loads(told)
        killed_search.check(fresh, see(), expected)

    def _verify(self, kind: str, see: Callable[[], dict[str, str]] | None = None) -> None:
        ledger, folder = self.ledgers[kind], self.folder / kind
        states = list(ledger.states())
        seen = None if see is None else see()
        if seen is not None and seen not in states:
            raise AssertionError(f"a process that had the store open: {difference(seen, states)}")
        with Store.open(folder) as store:
            found = read_texts(store)
            copies = killed_library.copies(folder, read_texts) if kind == "shard" else {}
            if found | copies not in states:
                raise AssertionError(difference(found | copies, states))
            if see is not None:
                with store.transaction():
                    pass
                if read_texts(store) != found:
                    found = read_texts(store)
                    ledger.settle(found)
                    raise AssertionError("a change showed only after a write was begun and ended")
            if self.tallies[kind].kills % _CHECKED == 0 and (faults := list(store.check())):
                raise AssertionError(f"store check: {faults[0].line}")
        # The next reread continues what lies in `reread`.
        left = set(os.listdir(folder)) - {"data.mdb", "lock.mdb", *(["reread"] if kind == "reread" else [])}
        if left:
            raise AssertionError(f"files left: {sorted(left)}")
        if see is not None and see() != found:
            raise AssertionError("a process that had the store open does not see the change")
        ledger.settle(found | copies)


def main(
    kills: Annotated[int, typer.Option(min=1, help="Number of kills, over all kinds.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the moments.")] = 0,
    only: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}; all in turn by default.")] = "",
) -> None:
    """Kill processes at random moments, and verify that nothing acknowledged is lost."""
    kinds = [only] if only else KINDS
    with tempfile.TemporaryDirectory(prefix="attar-crash-") as folder:
        crashes = Crashes(Path(folder), seed)
        for number in range(kills):
            crashes.kill(kinds[number % len(kinds)])
    tallies = {kind: crashes.tallies[kind] for kind in kinds}
    for kind, tally in tallies.items():
        faults = f"{len(tally.faults)} faults"
        print(f"{kind:<12}{tally.kills:>6} kills{tally.changes:>9,} changes acknowledged{faults:>12}")
    found = [f"{kind}, {fault}" for kind, tally in tallies.items() for fault in tally.faults]
    if found:
        print("\n".join(found))
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
