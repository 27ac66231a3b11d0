"""Full disks and damaged files: nothing acknowledged is lost, and one line says what is wrong.

`benchmarks/crash.py` kills processes.
"""

import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from attar.errors import AttarError, FormatError, RecordError, StoreError
from attar.store.lmdb_env import Environment
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, put

NOBODY = 65534


def fill(store, count=20):
    with store.transaction() as changes:
        for number in range(count):
            put(changes, f"doc {number}", make_memory(number, 60), text="text " * number)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process can grow beyond: what a full disk looks like from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_raises_and_the_store_stays_usable(store):
    put(store, "emma", make_memory(1))
    with largest_file(2**18), pytest.raises(StoreError, match="the disk is full, or broken; free some space"):
        fill(store, 200)
    assert [entry.name for entry in store.documents()] == ["emma"]
    assert list(store.check()) == []
    fill(store)
    assert len(store) == 21
    assert list(store.check()) == []


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A place that everybody may look into; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


@contextmanager
def without_privileges() -> Iterator[None]:
    """As an ordinary user: the superuser may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_without_write_permission_is_refused(nobodys_folder):
    folder = nobodys_folder / "store"
    with Store.open(folder) as store:
        put(store, "emma", make_memory(1))
    before = (folder / "data.mdb").read_bytes()
    for file in ("data.mdb", "lock.mdb"):
        os.chmod(folder / file, 0o444)
    os.chmod(folder, 0o555)
    try:
        with without_privileges():
            for place in (folder, nobodys_folder / "store" / "new"):
                with pytest.raises(StoreError, match="no permission to"):
                    Store.open(place)
    finally:
        os.chmod(folder, 0o755)
    assert (folder / "data.mdb").read_bytes() == before


class Panicking:
    """LMDB after a commit that its disk did not take."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self.environment = environment

    def begin(self, *arguments: object) -> None:
        raise lmdb.PanicError("mdb_txn_begin: MDB_PANIC: Update of meta page failed")

    def close(self) -> None:
        self.environment.close()


def test_after_a_failed_commit_the_environment_is_opened_again(store):
    put(store, "emma", make_memory(1))
    for use in (lambda: memory_in(store, "emma"), lambda: put(store, "lydia", make_memory(2))):
        store._environment._lmdb = Panicking(store._environment._lmdb)
        use()
    assert len(store) == 2


def test_a_truncated_file_is_refused_at_any_length(folder):
    with Store.open(folder) as store:
        fill(store)
    data = folder / "data.mdb"
    whole = data.read_bytes()
    for length in [*range(0, len(whole), 9001), *range(4096, len(whole), 4096), len(whole) - 1]:
        data.write_bytes(whole[:length])
        for options in ({}, {"read_only": True}):
            with pytest.raises(AttarError) as caught:
                Store.open(folder, **options)
            assert "\n" not in str(caught.value)
        assert data.stat().st_size == length
    data.write_bytes(whole)
    with Store.open(folder) as store:
        assert list(store.check()) == []


CHECKING = """
import sys
from attar.errors import AttarError
from attar.store.store import Store
for options in ({"read_only": True}, {}):
    try:
        with Store.open(sys.argv[1], **options) as store:
            faults = list(store.check())
            print("open", len(faults))
    except AttarError as fault:
        print(fault)
"""


@pytest.mark.slow
def test_a_value_whose_last_pages_are_missing_is_found_before_it_is_mapped(folder):
    """The value at the end of the file has ten pages; LMDB would read the missing ones, and the system end it."""
    with Store.open(folder) as store:
        put(store, "emma", make_memory(1, 320))
    data = folder / "data.mdb"
    whole = data.read_bytes()
    at = whole.index(make_memory(1, 320).numbers.tobytes()) // 4096
    for pages in (1, 5, 8):
        cut = whole[: (at + pages) * 4096]
        data.write_bytes(cut)
        ran = subprocess.run([sys.executable, "-c", CHECKING, folder], capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
        lines = ran.stdout.splitlines()
        assert len(lines) == 2
        assert all("the store file is truncated" in line for line in lines)
        assert data.read_bytes() == cut


# Changes after which LMDB has given up pages at the file's end without ever having written them.
SHORT = [
    [("b", 60), ("a", 4)],
    [("c", 300), ("b", 60), ("b", 60)],
    [("a", 100), ("c", 4), ("a", 60), ("c", 4), ("b", 0), ("a", 0), ("b", 60), ("b", 20)],
]


def test_a_file_without_its_unwritten_free_pages_opens(folder, monkeypatch):
    """As left by a writer that is killed right after its commit."""
    with Store.open(folder) as store, monkeypatch.context() as patch:
        patch.setattr(Environment, "extend_file", lambda self: None)
        for steps in SHORT:
            with store.transaction() as changes:
                for name, size in steps:
                    if size:
                        put(changes, name, make_memory(1, size))
                    else:
                        changes.remove(name)
        whole = store._environment.map.stat()["psize"] * (store._environment.map.info()["last_pgno"] + 1)
    assert (folder / "data.mdb").stat().st_size < whole
    with Store.open(folder) as store:
        assert (folder / "data.mdb").stat().st_size == whole
        assert memory_in(store, "b") == make_memory(1, 20)
        assert list(store.check()) == []


def test_a_file_that_is_not_a_database_is_refused(folder):
    Store.open(folder).close()
    for content in (b"x" * 20_000, bytes(20_000), b"{}", b""):
        (folder / "data.mdb").write_bytes(content)
        with pytest.raises(RecordError, match=r"the store file is (damaged|empty)"):
            Store.open(folder)
        assert (folder / "data.mdb").read_bytes() == content


def test_a_store_that_lost_its_header_is_not_taken_for_a_new_one(folder):
    with Store.open(folder) as store:
        fill(store)
        store.compact()
        page = store._environment.map.stat()["psize"]
    with (folder / "data.mdb").open("r+b") as file:
        # The number of the last change, in the second meta page: then the first, of an empty file, counts.
        file.seek(page + 144)
        file.write(bytes(8))
    with pytest.raises(FormatError, match="the file is another database, or damaged"):
        Store.open(folder)


@pytest.mark.slow
def test_flipped_bits_are_found_by_check_and_never_crash_the_process(folder):
    with Store.open(folder) as store:
        fill(store, 6)
        store.compact()
        expected = {entry.name: memory_in(store, entry.name) for entry in store.documents()}
    data = folder / "data.mdb"
    whole = data.read_bytes()
    places = random.Random(0)
    for _ in range(150):
        # After LMDB's two meta pages, which have no checksum (`attar.store.lmdb_env`).
        bit = places.randrange(8 * 2 * 4096, 8 * len(whole))
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        data.write_bytes(flipped)
        try:
            store = Store.open(folder)
        except AttarError:
            continue
        with store:
            faults = list(store.check())
            if not faults:
                # It lay where nothing is written: all is as it was.
                assert {entry.name: memory_in(store, entry.name) for entry in store.documents()} == expected


def test_another_lmdb_database_is_refused_and_left_unchanged(folder):
    with lmdb.open(str(folder)) as database, database.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    before = (folder / "data.mdb").read_bytes()
    with pytest.raises(FormatError, match="the file is another database"):
        Store.open(folder)
    assert (folder / "data.mdb").read_bytes() == before
