"""Kills writers, imports, rereads, servers and more at random moments, and verifies what they leave: `make crash`.

Everything runs in forks of one process that has loaded what they need, so that a kill costs milliseconds; it never
has a store open while it forks. What was begun and acknowledged comes down a pipe and is written to a log outside the
store, synced to the disk before anything is verified. After each kill:

- the store opens, and has exactly the acknowledged documents, with the change that was under way made whole or not at
  all; no document is torn or of another reader than the store, and every fifth time `store check` reads all pages and
  records;
- where another process has the store open all the time (`observed`), that process sees one of the same two states,
  and a process that opens the store then sees what it will still see after a write was begun and ended.
"""

import gc
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import IO, Annotated, Any

import torch
import typer

from attar.store import Durability, Signatures, Snapshot, Store, key_of
from benchmarks import killed
from benchmarks.command import Json, run_command
from benchmarks.killed import Change, with_change

KINDS = ("writer", "observed", "compaction", "import", "reread", "server")
_WORK = {"compaction": killed.compact, "import": killed.import_files, "reread": killed.reread}
_DURABILITY: tuple[Durability, ...] = ("sync", "sync", "relaxed", "none")
# Seconds after the first acknowledgement, at most; every fourth is killed so long after its start instead.
_LATEST = {"compaction": 0.03, "import": 0.06, "reread": 0.1, "server": 0.06}
_CLIENTS = 2
_CHECKED = 5


@dataclass
class Ledger:
    """The acknowledged documents of one store, and each writer's change under way, as the log has them."""

    log: IO[str]
    texts: dict[str, str] = field(default_factory=dict)
    begun: dict[int, Change] = field(default_factory=dict)
    changes: int = 0

    def note(self, events: bytes) -> None:
        """Write events to the log and the disk, then count them in."""
        self.log.write(events.decode())
        self.log.flush()
        os.fsync(self.log.fileno())
        for writer, change in map(json.loads, events.splitlines()):
            if change is not None:
                self.begun[writer] = change
            else:
                self.texts = with_change(self.texts, self.begun.pop(writer))
                self.changes += 1

    def states(self) -> Iterator[dict[str, str]]:
        """All states that the store may be in: each change under way is made, or not."""
        under_way = list(self.begun.values())
        for some in chain.from_iterable(combinations(under_way, n) for n in range(len(under_way) + 1)):
            texts = self.texts
            for change in some:
                texts = with_change(texts, change)
            yield texts

    def settle(self, found: dict[str, str]) -> None:
        """Take what was found for acknowledged: nothing may change it but the next writer."""
        self.texts, self.begun = found, {}


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


class Follower:
    """The signatures of a store, kept by its list of changes as an index keeps them."""

    def __init__(self) -> None:
        self.change, self.found = -1, dict[bytes, tuple[int, bytes]]()

    def follow(self, snapshot: Snapshot) -> None:
        """Take over what changed; raises if that is not what the store holds."""
        stored = Signatures(snapshot)
        everything = {key: (stamp, data) for key, stamp, data in stored}
        changed = stored.changed_since(self.change) if self.change >= 0 else None
        found = everything if changed is None else self.found
        now = {key: stored.get(key) for key in changed or ()}
        self.found = {key: each for key, each in (found | now).items() if each is not None}
        self.change = stored.change
        if self.found != everything:
            raise AssertionError("the list of changes misses a signature")


def read_texts(store: Store, follower: Follower | None = None) -> dict[str, str]:
    """Every document's text; raises if one is torn, or if its signature is of another version."""
    texts: dict[str, str] = {}
    with store.snapshot() as snapshot:
        (follower or Follower()).follow(snapshot)
        signatures = {key: data for key, _, data in Signatures(snapshot)}
        for entry in snapshot.documents():
            name = str(entry.name)
            record = snapshot.get(name)
            text, memory = str(record.text), record.memory
            if memory.reader != snapshot.header().reader:
                raise AssertionError(
                    f"{name[:40]!r} is of the reader {memory.reader!r}, the store of another"
                )
            if memory.reader in (killed.READER, *killed.READERS) and killed.is_torn(text, memory):
                raise AssertionError(f"{name[:40]!r} is torn: {text[:40]!r}, {memory}")
            if signatures.pop(key_of(name), text.encode()) != text.encode():
                raise AssertionError(f"the signature of {name[:40]!r} is of another version")
            texts[name] = text
    if signatures:
        raise AssertionError(f"signatures without documents: {sorted(signatures)[0][:40]!r}")
    return texts


class Crashes:
    """Kills processes of each kind, each with a store of its own, below one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        torch.set_num_threads(1)
        self.folder, self.moments = folder, random.Random(seed)
        self.tallies = {kind: Tally() for kind in KINDS}
        self.ledgers = {kind: Ledger((folder / f"{kind}.log").open("w")) for kind in KINDS}
        killed.prepare_imports(folder / "imports")
        killed.prepare_server(folder)
        # Not traversed, and so not copied, by the collector of any fork.
        gc.collect()
        gc.freeze()
        for kind in KINDS[:-1]:
            Store.open(folder / kind).close()

    @contextmanager
    def observer(self) -> Iterator[Callable[[], dict[str, str]]]:
        """A process that has the store open and reads all the time; call it for what it sees."""
        asked, ask = os.pipe()
        answered, answer = os.pipe()

        def observe() -> None:
            os.close(ask)
            store, follower = Store.open(self.folder / "observed", read_only=True), Follower()
            while True:
                texts = read_texts(store, follower)
                if len({texts.get(name) for name in killed.PAIR}) > 1:
                    raise AssertionError("half a change")
                if select.select([asked], [], [], 0)[0]:
                    if not os.read(asked, 1):
                        return
                    found = json.dumps(read_texts(store)).encode()
                    os.write(answer, len(found).to_bytes(4, "little") + found)

        child = fork(observe)
        os.close(asked)
        os.close(answer)

        def see() -> dict[str, str]:
            os.write(ask, b"?")
            with open(answered, "rb", closefd=False) as pipe:
                size = int.from_bytes(pipe.read(4), "little")
                found: dict[str, str] | None = json.loads(pipe.read(size) or b"null")
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
        with suppress(AssertionError), self.noting(kind):
            if kind == "server":
                self._kill_server()
                self._verify(kind)
            elif kind == "observed":
                with self.observer() as see:
                    self._kill_writer(kind)
                    self._verify(kind, see)
            else:
                self._kill_writer(kind)
                self._verify(kind)
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
        start, durability = 1 + self.ledgers[kind].changes, self.moments.choice(_DURABILITY)
        child = fork(_WORK.get(kind, killed.write), self.folder / kind, start, theirs, durability)
        os.close(theirs)
        self._kill_later(kind, child, ours)

    def _kill_server(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
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

    def _verify(self, kind: str, see: Callable[[], dict[str, str]] | None = None) -> None:
        ledger, folder = self.ledgers[kind], self.folder / kind
        states = list(ledger.states())
        seen = None if see is None else see()
        if seen is not None and seen not in states:
            raise AssertionError(f"a process that had the store open: {difference(seen, states)}")
        with Store.open(folder) as store:
            found = read_texts(store)
            if found not in states:
                raise AssertionError(difference(found, states))
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
        ledger.settle(found)


def difference(found: dict[str, str], states: list[dict[str, str]]) -> str:
    """Which document is not as in the state that comes nearest."""
    wrong = [
        [name for name in sorted(found.keys() | state.keys()) if found.get(name) != state.get(name)]
        for state in states
    ]
    at = min(range(len(states)), key=lambda n: len(wrong[n]))
    name = wrong[at][0]
    expected, came = (str(texts.get(name))[-60:] for texts in (states[at], found))
    return f"{len(wrong[at])} documents differ, such as {name[:40]!r}: expected {expected!r}, found {came!r}"


def main(
    kills: Annotated[int, typer.Option(min=1, help="Number of kills, over all kinds.")] = 500,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after this time; 0: no limit.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the moments.")] = 0,
    only: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}; all in turn by default.")] = "",
    json_output: Json = False,
) -> None:
    """Kill processes at random moments, and verify that nothing acknowledged is lost."""
    kinds = [only] if only else KINDS
    end = time.monotonic() + (seconds or 10**9)
    with tempfile.TemporaryDirectory(prefix="attar-crash-") as folder:
        crashes = Crashes(Path(folder), seed)
        for number in range(kills):
            if time.monotonic() > end:
                break
            crashes.kill(kinds[number % len(kinds)])
    rows: dict[str, Any] = {kind: vars(crashes.tallies[kind]) for kind in kinds}
    if json_output:
        print(json.dumps(rows, indent=1))
    else:
        for kind, row in rows.items():
            faults = f"{len(row['faults'])} faults"
            print(f"{kind:<12}{row['kills']:>6} kills{row['changes']:>9,} changes acknowledged{faults:>12}")
        for kind, row in rows.items():
            for fault in row["faults"]:
                print(f"{kind}, {fault}")
    if any(row["faults"] for row in rows.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
