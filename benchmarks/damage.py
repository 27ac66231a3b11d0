"""Bit flips and truncations of a store's file: no wrong answer, no crash, and `repair` keeps what is readable.

    python -m benchmarks.damage --flips 1000 --tree-flips 200 --cuts 200

Every trial damages a copy of one store, and a child process uses it in every way: reads and lists all documents,
checks, writes, repairs. A document must come back as it was written, or with an error. The child is a process of its
own because LMDB maps its file: a fault in the wrong place ends the process that reads it.

Outcomes that are counted apart, as documented exceptions:

    lookups             are not compared: they verify no checksum, which would take longer than the lookup
    an earlier state    a flip in LMDB's meta pages, which have no checksum, undid the last change
    crashed             a flip in a page of LMDB's tree, which have none either, ended the process on reading; checking
                        and repairing the same file, which do not rely on LMDB, must work all the same
"""

import contextlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer

from attar.errors import AttarError
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.memory import Memory
from attar.store.pages import PageFile
from attar.store.repair import repair_store
from attar.store.store import Store
from attar.store.validation import Fault
from attar.text.name_table import NameTable
from benchmarks.command import run_command

READER = "made up"
DOCUMENTS = 60
# What a child does with a damaged store. The first needs LMDB; the others read the pages first.
READING, MAINTAINING = "read", "maintain"


@cache
def memory_of(number: int) -> Memory:
    """A memory: in pages of its own, within a leaf, or with names and co-occurrence counts."""
    rng = np.random.default_rng(number)
    if number % 3 == 2:
        ids = rng.integers(3, 30, 60)
        ids[(ids >= 6) & (ids < 9)] = 9
        names, ends = np.where(ids < 6, ids - 3, -1), np.arange(60) % 6 == 5
        (counts,) = Cooccurrence.count(names, ids, ends, [60], counts=[3], first=3, limit=6, common=0)
        table = NameTable.of("Emma", "Harriet", f"Town{number}")
        vectors = rng.normal(size=(3, 4))
        return Memory.of("named", vectors, tokens=60, reader=READER, names=table, cooccurrence=counts)
    size = (60, 6)[number % 3]
    f = rng.normal(size=(size, size)).astype(np.float32)
    return Memory.of_matrix(f @ f.T, tokens=number, reader=READER, names=NameTable.of(f"Emma {number}"))


@cache
def text_of(number: int) -> str | None:
    """A text for every second document, some longer than a page."""
    words = np.random.default_rng(number).integers(0, 10**9, 40 * number).tolist()
    return None if number % 2 else "Emma left. " + " ".join(map(str, words))


def fill(folder: Path, documents: int = DOCUMENTS) -> None:
    """Write documents, signatures and statistics; some are replaced and removed, so that there are free pages."""
    with Store.open(folder) as store:
        for number in range(documents):
            store.put(f"doc {number:03}", memory_of(number), title=f"T{number}", text=text_of(number))
        with store.transaction() as changes:
            changes.put_signature(None, np.random.default_rng(0).bytes(9_000))
            for number in range(1, documents, 2):
                changes.put_signature(f"doc {number:03}", np.random.default_rng(number).bytes(300))
        for number in range(0, documents, 7):
            store.put(f"doc {number:03}", memory_of(number), title=f"T{number}", text=text_of(number))
        store.put("removed", memory_of(0), text="Harriet stayed.")
        store.remove("removed")


def is_right(number: int, store: Store) -> bool:
    """Whether a document is as it was written; raises if it cannot be read."""
    record = store.get(f"doc {number:03}")
    same = (record.entry.title, record.text) == (f"T{number}", text_of(number))
    return same and record.memory == memory_of(number)


def look_up(store: Store, documents: int) -> None:
    """Look up a query in every memory, without checksums: the result may be wrong, the process must not end."""
    with store.snapshot() as snapshot:
        for number in range(documents):
            with contextlib.suppress(AttarError):
                memory = snapshot.memory(f"doc {number:03}")
                memory.lookup(np.ones((1, memory.size), np.float32))


def read_all(folder: Path, documents: int, read_only: bool) -> str:
    """Use a damaged store as a library does."""
    try:
        with Store.open(folder, read_only=read_only) as store:
            listed = list(store.documents())
            bad = {entry.name for entry in listed if isinstance(entry, Fault)}
            refused = len(bad)
            for number in range(documents):
                try:
                    if not is_right(number, store):
                        return f"wrong: document {number}"
                except AttarError:
                    refused += 1
            look_up(store, documents)
            known = {f"doc {number:03}" for number in range(documents)}
            strange = {entry.name for entry in listed} - known - bad
            missing = known - {entry.name for entry in listed}
            if strange:
                return (
                    "an earlier state"
                    if strange == {"removed"}
                    else f"wrong: listed {sorted(map(str, strange))}"
                )
            if missing and not refused:
                return f"wrong: missing {sorted(missing)}"
            if not read_only:
                store.put("new", memory_of(1))
                if store.memory("new") != memory_of(1):
                    return "wrong: new document"
            return "refused in part" if refused else "all right"
    except AttarError:
        return "refused"


def maintain(folder: Path, documents: int) -> str:
    """Check and repair a damaged store."""
    try:
        with Store.open(folder, read_only=True) as store:
            found = len(list(store.check()))
            if not found and not all(is_right(number, store) for number in range(documents)):
                return "wrong: check found nothing"
    except AttarError:
        found = 1
    repaired = repair_store(folder)
    named = {fault.name for fault in repaired.faults}
    counted = any(fault.name is None for fault in repaired.faults)
    with Store.open(folder) as store:
        faults = list(store.check())
        if faults:
            return f"wrong: after a repair {faults[0].line}"
        known = {f"doc {number:03}": number for number in range(documents)}
        for entry in store.documents():
            if entry.name == "removed":
                return "an earlier state"
            if entry.name not in known or (
                entry.name not in named and not is_right(known[entry.name], store)
            ):
                return f"wrong: {entry.name} after a repair"
            if store.memory(entry.name) != memory_of(known[entry.name]):
                return f"wrong: memory of {entry.name} after a repair"
        lost = len(known) - len(store)
        if lost and not named and not counted:
            return f"wrong: {lost} documents lost by a repair, not named"
        return f"repaired, {lost} lost" if found else "all right"


def run_child() -> None:
    """Read jobs from standard input, one a line, and print their outcomes."""
    for line in sys.stdin:
        what, folder, documents = json.loads(line)
        if what == READING:
            shutil.copytree(folder, folder + "-w")
            outcomes = [
                read_all(Path(folder), documents, True),
                read_all(Path(folder + "-w"), documents, False),
            ]
            shutil.rmtree(folder + "-w")
            outcome = next((each for each in outcomes if each.startswith("wrong")), outcomes[0])
        else:
            outcome = maintain(Path(folder), documents)
        print(json.dumps(outcome), flush=True)


class Child:
    """A process that does jobs, started again when one has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def do(self, *job: Any) -> str:
        """Return a job's outcome, or how it ended the process."""
        if self._process is None:
            command = [sys.executable, "-m", "benchmarks.damage", "--child"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        sent, received = _pipe(self._process.stdin), _pipe(self._process.stdout)
        sent.write(json.dumps(job) + "\n")
        sent.flush()
        line = received.readline()
        if line:
            return str(json.loads(line))
        code = self._process.wait()
        self._process = None
        return f"crashed by signal {-code}" if code < 0 else "wrong: an exception"

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@dataclass
class Report:
    """Outcomes and how often each came, of reading and of maintaining; what was wrong, and where."""

    reading: Counter[str] = field(default_factory=Counter)
    maintaining: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, damage: str, reading: str, maintaining: str) -> None:
        """Count a trial."""
        self.reading[reading] += 1
        self.maintaining["repaired" if maintaining.startswith("repaired") else maintaining] += 1
        for outcome in (reading, maintaining):
            if outcome.startswith("wrong"):
                self.wrong.append(f"{damage}: {outcome}")
        if reading.startswith("crashed") and " tree " not in damage:
            self.wrong.append(f"{damage}: {reading}")
        if maintaining.startswith("crashed"):
            self.wrong.append(f"{damage}: {maintaining} when checked or repaired")


def tree_pages(data: Path) -> tuple[int, list[int]]:
    """The page size; the meta pages and the pages of LMDB's tree and free list, in which nothing has a checksum."""
    content, used = data.read_bytes(), set[int]()
    with open(data, "rb") as file:
        pages = PageFile(file.fileno(), len(content))
        meta = pages.metas()[0]
        for root in (meta.root, meta.free_root):
            list(pages.walk(meta, root, used))
    size = meta.page_size
    starts = {page: content[page * size : page * size + 12] for page in sorted(used)}
    # Overflow pages are left out: flags 1 and 2 are a branch and a leaf.
    tree = [page for page, start in starts.items() if start[:8] == page.to_bytes(8, sys.byteorder)]
    return size, [
        0,
        1,
        *(page for page in tree if int.from_bytes(starts[page][10:], sys.byteorder) in (1, 2)),
    ]


def try_damages(flips: int, tree_flips: int, cuts: int, seed: int = 0, documents: int = DOCUMENTS) -> Report:
    """Damage copies of a store by one bit or a cut each, and use them."""
    report, child, rng = Report(), Child(), random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        fill(whole, documents)
        content = (whole / "data.mdb").read_bytes()
        size, tree = tree_pages(whole / "data.mdb")
        bits = [rng.randrange(8 * len(content)) for _ in range(flips)]
        bits += [8 * size * rng.choice(tree) + rng.randrange(8 * size) for _ in range(tree_flips)]
        for bit in bits:
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            kind = "tree" if bit // 8 // size in tree else "other"
            _try(report, child, Path(place), f"bit {bit} in a {kind} page", bytes(damaged), documents)
        for _ in range(cuts):
            length = rng.randrange(len(content))
            _try(report, child, Path(place), f"cut to {length} bytes", content[:length], documents)
        child.end()
    return report


def _try(report: Report, child: Child, place: Path, damage: str, data: bytes, documents: int) -> None:
    outcomes = []
    for what in (READING, MAINTAINING):
        folder = place / "damaged"
        for leftover in place.glob("damaged*"):
            shutil.rmtree(leftover)
        folder.mkdir()
        (folder / "data.mdb").write_bytes(data)
        outcomes.append(child.do(what, str(folder), documents))
    report.add(damage, outcomes[0], outcomes[1])


def main(
    flips: Annotated[int, typer.Option(help="Bits anywhere in the file.")] = 1000,
    tree_flips: Annotated[int, typer.Option(help="Bits in the pages of LMDB's tree.")] = 200,
    cuts: Annotated[int, typer.Option(help="Truncations.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    child: Annotated[bool, typer.Option("--child", hidden=True)] = False,
) -> None:
    """Count the outcomes; exit with code 1 if an answer was wrong or a process crashed that must not."""
    if child:
        run_child()
        return
    report = try_damages(flips, tree_flips, cuts, seed)
    for title, outcomes in (("reading", report.reading), ("check and repair", report.maintaining)):
        print(title, *(f"{count:>8,}  {outcome}" for outcome, count in outcomes.most_common()), sep="\n")
    print("\n".join(report.wrong) or "nothing wrong")
    if report.wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
