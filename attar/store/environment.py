"""The open file under a store: LMDB's map and its growth, the locks around it, and its replacement."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb

from attar.store.faults import BusyError, StoreError, damage, line_for, lines_for
from attar.store.locks import Gate, Turn, locked, sync_folder
from attar.store.opening import Durability, open_map
from attar.store.pages import fill_up, missing_bytes, structural_faults

ATTEMPTS = 8
DATA, LOCK, COPY = "data.mdb", "lock.mdb", "data.mdb.copy"

Transaction = Any  # lmdb's, which hands out views


class Environment:
    """One open LMDB file; `sharing` gives it to all stores of this process that are open at the same place."""

    def __init__(self, folder: Path, *, read_only: bool, durability: Durability, map_size: int) -> None:
        self.folder = folder
        self.read_only = read_only
        self.durability = durability
        self.gate = Gate(folder)
        self.turn = Turn(folder)
        self._map_size = map_size
        # A fork of the process that opened the file may not touch it: LMDB's place among the readers, and its
        # locks, are the other's.
        self.forked = False
        self._lmdb: lmdb.Environment | None = None
        self._data = -1
        # Locked while the store is open here: whoever replaces the file waits until it is alone.
        self._in_use = os.open(folder, os.O_RDONLY)
        try:
            self._open()
        except BaseException:
            os.close(self._in_use)
            raise

    def _open(self) -> None:
        with lines_for(self.folder):
            fcntl.flock(self._in_use, fcntl.LOCK_SH)
            try:
                if not self.read_only:
                    # Nobody replaces the file now, so this is what a killed process left.
                    (self.folder / COPY).unlink(missing_ok=True)
                is_new = not (self.folder / DATA).exists()
                self._lmdb = open_map(self.folder, self.read_only, self.durability, self._map_size)
                if is_new:
                    sync_folder(self.folder)
                self._data = os.open(self.folder / DATA, os.O_RDONLY)
                self._refuse_cut_file()
                self._lmdb.reader_check()
            except BaseException:
                self._close()
                fcntl.flock(self._in_use, fcntl.LOCK_UN)
                raise

    def file_bytes(self) -> int:
        """Tell how long the file is."""
        return os.fstat(self._data).st_size

    def _refuse_cut_file(self) -> None:
        # Pages at the end that were given up before they were ever written may be missing rightly; only for
        # them, and for a file that was cut, all of it has to be walked through.
        if not missing_bytes(self.map, self._data):
            return
        fcntl.flock(self._data, fcntl.LOCK_EX)
        try:
            # Unless it was a writer that had yet to fill it up.
            faults = structural_faults(self.folder / DATA) if missing_bytes(self.map, self._data) else []
            if faults:
                raise damage(self.folder, f"a part of it ({faults[0]})")
            self.fill_up()
        finally:
            fcntl.flock(self._data, fcntl.LOCK_UN)

    def fill_up(self) -> None:
        """Make the file as long as its pages, after each change: so a cut one is known by its length."""
        missing = missing_bytes(self.map, self._data)
        if missing and not self.read_only:
            # The change is made already; where this fails, the next opening looks at all pages.
            with contextlib.suppress(OSError):
                fill_up(self.folder / DATA, self.file_bytes() + missing)

    @property
    def map(self) -> lmdb.Environment:
        """LMDB's own object."""
        if self._lmdb is None:
            raise StoreError(f"store {self.folder}", "an open store", "a closed one", "open it again")
        return self._lmdb

    def begin(self, write: bool = False) -> tuple[Transaction, int]:
        """Begin a transaction inside the gate; whoever ends it leaves the gate with the number given here."""
        attempts = 0
        while True:
            self.refuse_fork()
            thread = self.gate.enter()
            try:
                return (self._lmdb or self.map).begin(None, None, write, True), thread
            except lmdb.Error as fault:
                self.gate.leave(thread)
                attempts += 1
                if attempts > ATTEMPTS or not self._mended(fault):
                    raise line_for(self.folder, fault) from fault
            except BaseException:
                self.gate.leave(thread)
                raise

    @contextlib.contextmanager
    def moment(self) -> Iterator[Transaction]:
        """Read within one transaction, and say what LMDB reports in a line."""
        transaction, thread = self.begin()
        try:
            with lines_for(self.folder):
                yield transaction
        finally:
            if not self.forked:
                transaction.abort()
                self.gate.leave(thread)

    def refuse_fork(self) -> None:
        """Refuse to work in a fork of the process that opened the file."""
        if self.forked:
            remedy = "open it after forking, or start processes by spawning them"
            raise StoreError(f"store {self.folder}", "the process that opened it", "a fork of that", remedy)

    def _mended(self, fault: lmdb.Error) -> bool:
        if isinstance(fault, lmdb.ReadersFullError):
            return self.map.reader_check() > 0
        if isinstance(fault, lmdb.BadRslotError):
            # A fork that has ended gave up the place kept for the next reading; LMDB takes another.
            return True
        if isinstance(fault, lmdb.MapResizedError):
            with self.gate.alone():
                self.map.set_mapsize(0)
            return True
        if isinstance(fault, lmdb.PanicError):
            # The disk failed in the middle of a commit; opened again, LMDB goes on from its last sound state.
            with self.gate.alone(), lines_for(self.folder):
                self.map.close()
                self._lmdb = None
                self._lmdb = open_map(self.folder, self.read_only, self.durability, self._map_size)
            return True
        return False

    def grow(self) -> None:
        """Double the map."""
        with self.gate.alone():
            self.map.set_mapsize(2 * self.map.info()["map_size"])

    @contextlib.contextmanager
    def writing_turn(self, timeout: float | None) -> Iterator[None]:
        """Wait for the turn to write."""
        if self.read_only:
            remedy = "open it without read_only"
            raise StoreError(
                f"store {self.folder}", "a store open for writing", "one open for reading", remedy
            )
        with self.turn.taken(self._data_file, timeout):
            yield

    def _data_file(self) -> int:
        """The data file, to lock it: asked for when the turn among threads has come, for it may be replaced."""
        self.refuse_fork()
        self.map  # noqa: B018  # a closed one says so
        return self._data

    def page_faults(self) -> list[str]:
        """Walk through all pages, while nobody writes, and say what is wrong with them."""
        with self.turn.taken(self._data_file, None), lines_for(self.folder):
            return structural_faults(self.folder / DATA)

    @contextlib.contextmanager
    def replacing(self, timeout: float) -> Iterator[None]:
        """Close the file, keep every process away, and open what lies in its place afterwards."""
        self.refuse_fork()
        with self.turn.taken_here(timeout), self.gate.alone():
            self._close()
            try:
                if not locked(self._in_use, fcntl.LOCK_EX, time.monotonic() + timeout):
                    came = "another process that has it open"
                    raise BusyError(f"store {self.folder}", "to be alone with it", came, "end that first")
                yield
            finally:
                self._open()

    def close(self) -> None:
        """Close the file, once every reading of it has ended."""
        with self.gate.alone():
            self._close()
            os.close(self._in_use)

    def forget(self) -> None:
        """Let go of the locks, in a fork; LMDB's object stays, for closing it would end the other's readings."""
        self.forked = True
        for file in (self._data, self._in_use):
            if file >= 0:
                os.close(file)

    def _close(self) -> None:
        if self._lmdb is not None:
            self._lmdb.close()
            self._lmdb = None
        if self._data >= 0:
            os.close(self._data)
            self._data = -1

    def serves(self, folder: Path) -> bool:
        """Tell whether this is the file that lies there now: folders come and go, and so do their numbers."""
        thread = self.gate.enter()
        try:
            return self._data >= 0 and os.path.samestat(os.fstat(self._data), os.stat(folder / DATA))
        except OSError:
            return False
        finally:
            self.gate.leave(thread)
