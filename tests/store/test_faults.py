"""Whatever happens to the process or the disk: nothing acknowledged is lost, and one line says why."""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from attar.store import Store, StoreError, UnknownNameError

NOBODY = 65534


def fill(store, make_memory, count=20):
    with store.writing() as changes:
        for number in range(count):
            changes.put(f"doc {number}", make_memory(number, 60), text="text " * number)


@pytest.mark.slow
def test_writers_killed_at_random_moments_lose_nothing_and_tear_nothing(folder):
    script = Path(__file__).parent / "killed_writers.py"
    ran = subprocess.run([sys.executable, script, folder, "60"], capture_output=True, text=True, timeout=300)
    assert ran.stderr == ""
    assert ran.returncode == 0
    assert int(ran.stdout) >= 45
    assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]


COMPACTING = """
import sys
from attar.store import Store
with Store.open(sys.argv[1]) as store:
    print("open", flush=True)
    while True:
        store.compact()
"""


@pytest.mark.slow
def test_a_killed_compaction_leaves_the_store(folder, make_memory):
    with Store.open(folder) as store:
        fill(store, make_memory)
    moments = random.Random(0)
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", COMPACTING, folder], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(moments.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Store.open(folder) as store:
            assert sorted(os.listdir(folder)) == ["data.mdb", "lock.mdb"]
            assert len(store) == 20
            assert list(store.check()) == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process can grow beyond: what a full disk looks like from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named_and_the_store_goes_on(store, make_memory):
    store.put("emma", make_memory(1))
    with (
        largest_file(2**18),
        pytest.raises(StoreError, match=r"got a full disk, or a broken one; free some space"),
    ):
        fill(store, make_memory, 200)
    assert [facts.name for facts in store.documents()] == ["emma"]
    assert list(store.check()) == []
    fill(store, make_memory)
    assert len(store) == 21
    assert list(store.check()) == []


def test_a_disk_that_fills_up_little_by_little_keeps_what_was_acknowledged(store, make_memory):
    acknowledged = []

    def add_until_full() -> None:
        for number in range(1000):
            store.put(f"{number:03}", make_memory(number, 30))
            acknowledged.append(f"{number:03}")

    with largest_file(2**18), pytest.raises(StoreError, match="full disk"):
        add_until_full()
    assert [facts.name for facts in store.documents()] == acknowledged != []
    store.put("later", make_memory())
    assert list(store.check()) == []


def test_no_room_for_a_compacted_copy(store, make_memory):
    fill(store, make_memory)
    with largest_file(2**14), pytest.raises(StoreError, match="full disk"):
        store.compact()
    assert len(store) == 20
    assert sorted(os.listdir(store.path)) == ["data.mdb", "lock.mdb"]


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


def test_a_folder_that_cannot_be_written_is_named(nobodys_folder, make_memory):
    folder = nobodys_folder / "store"
    with Store.open(folder) as store:
        store.put("emma", make_memory(1))
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


def test_a_commit_that_the_disk_did_not_take_is_left_behind_by_opening_again(store, make_memory):
    store.put("emma", make_memory(1))
    for use in (lambda: store.memory("emma"), lambda: store.put("lydia", make_memory(2))):
        store._environment._lmdb = Panicking(store._environment._lmdb)
        use()
    assert len(store) == 2


def test_few_addresses_are_enough(folder):
    """Under a limit on addresses the map starts smaller, and grows."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))"
    code = "import sys; from attar.store import Store; print(Store.open(sys.argv[1]).stats().map_bytes)"
    command = [sys.executable, "-c", f"{limit}; {code}", folder]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stderr == ""
    assert 2**20 <= int(ran.stdout) < 2**33


def test_one_line_for_a_name_of_many(store):
    with pytest.raises(UnknownNameError) as caught:
        store.get("a\nb" * 10_000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
