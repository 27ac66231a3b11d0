"""Many processes read while one writes; a fork must open the store itself."""

import subprocess
import sys

import pytest

from attar.errors import BusyError
from attar.store.store import Store

pytestmark = pytest.mark.slow

# What another process does with the store: it runs the lines from its standard input.
OTHER = """
import sys
import numpy as np
from attar.errors import AttarError
from attar.memory import Memory
from attar.store import Store

store = Store.open(sys.argv[1], map_size=int(sys.argv[2]))
def memory(number, size=60):
    return Memory.of_matrix(np.eye(size) * number, tokens=number, reader="reader-1")
changes = None
for line in sys.stdin:
    try:
        print(eval(line) if not line.startswith("!") else exec(line[1:]), flush=True)
    except AttarError as fault:
        print(fault, flush=True)
"""


class Other:
    """Another process that has the store open, and runs the lines that it gets."""

    def __init__(self, folder, map_size=2**30):
        command = [sys.executable, "-c", OTHER, str(folder), str(map_size)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        return self.process.stdout.readline().rstrip("\n")

    def do(self, line):
        self.start(line)
        return self.end()


@pytest.fixture
def other(store, folder):
    other = Other(folder, 2**18)
    assert other.do("len(store)") == "0"
    yield other
    other.process.stdin.close()
    other.process.wait()
    other.process.stdout.close()


def test_what_one_process_writes_another_reads_at_once(store, other, make_memory):
    for number in range(5):
        store.put("emma", make_memory(number))
        assert other.do("store.memory('emma').tokens") == str(number)
        other.do(f"store.put('lydia', memory({number}))")
        assert store.memory("lydia").tokens == number


def test_a_process_follows_when_another_grows_the_map(store, other, make_memory):
    assert int(other.do("store.stats().map_bytes")) == 2**18
    for number in range(60):
        store.put(str(number), make_memory(number, 60))
    assert other.do("len(store)") == "60"
    assert other.do("sum(store.memory(entry.name).tokens for entry in store.documents())") == str(
        sum(range(60))
    )
    assert int(other.do("store.stats().map_bytes")) > 2**18
    other.do("store.put('last', memory(1))")
    assert "last" in store


def test_a_process_reads_during_another_process_transaction(store, other, make_memory):
    store.put("emma", make_memory(1))
    other.do("!changes = store.transaction(); changes.__enter__(); changes.put('emma', memory(2))")
    assert store.memory("emma") == make_memory(1)
    with Store.open(store.path) as again:
        assert again.memory("emma") == make_memory(1)
    other.do("!changes.__exit__(None, None, None)")
    assert store.memory("emma").tokens == 2


def test_a_second_writing_process_waits_or_times_out(store, other, make_memory):
    other.do("!changes = store.transaction(); changes.__enter__(); changes.put('lydia', memory(2))")
    with pytest.raises(BusyError, match="another writer"):
        store.put("emma", make_memory(1), timeout=0.05)
    other.start("changes.__exit__(None, None, None)")
    store.put("emma", make_memory(1))
    other.end()
    assert [entry.name for entry in store.documents()] == ["emma", "lydia"]


def test_a_killed_writer_releases_its_lock(store, other, make_memory):
    other.do("!changes = store.transaction(); changes.__enter__(); changes.put('lydia', memory(2))")
    other.process.kill()
    store.put("emma", make_memory(1))
    assert [entry.name for entry in store.documents()] == ["emma"]


def test_two_processes_that_create_a_store_at_once_create_one(tmp_path):
    others = [Other(tmp_path / "new") for _ in range(2)]
    for number, other in enumerate(others):
        other.start(f"store.put('{number}', memory({number}))")
    for other in others:
        other.end()
        other.process.communicate()
    with Store.open(tmp_path / "new") as store:
        assert [entry.name for entry in store.documents()] == ["0", "1"]


def test_a_store_open_in_another_process_is_not_compacted_and_stays_usable(store, other, make_memory):
    store.put("emma", make_memory(1))
    with pytest.raises(BusyError, match="another process that has it open; end that first"):
        store.compact()
    assert store.memory("emma") == make_memory(1)
    assert other.do("store.memory('emma').tokens") == "1"
    assert "expected exclusive access" in other.do("store.compact()")
    other.do("store.put('lydia', memory(2))")
    assert store.memory("lydia").tokens == 2


START = """
import os, sys
import numpy as np
from attar.errors import AttarError
from attar.memory import Memory
from attar.store import Store

def memory(number):
    return Memory.of_matrix(np.eye(60) * number, tokens=number, reader="reader-1")

def in_a_fork(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except AttarError as fault:
            print(fault, flush=True)
        sys.exit()
    os.waitpid(child, 0)

store = Store.open(sys.argv[1])
store.put("emma", memory(1))
"""


def lines_of(folder, code):
    command = [sys.executable, "-c", START + code, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    "work",
    [
        "store.get('emma')",
        "store.put('a', memory(2))",
        "list(store.check())",
        "store.compact()",
        "Store.open(sys.argv[1])",
    ],
)
def test_using_a_parents_store_in_a_fork_raises(folder, work):
    line, still = lines_of(folder, f"in_a_fork(lambda: {work})\nprint(store.memory('emma').tokens)")
    assert line.endswith(
        "expected the process that opened it, got a fork of it;"
        " close it before forking, or start processes by spawning them"
    )
    assert still == "1"


def test_a_fork_during_a_snapshot_leaves_it_to_the_parent(folder):
    code = """
with store.snapshot() as snapshot:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        for number in range(2, 9):
            store.put("emma", memory(number))
        print(snapshot.memory("emma", check=True).tokens)
if child:
    print(store.memory("emma").tokens)
"""
    assert lines_of(folder, code) == ["1", "8"]


def test_a_fork_during_a_transaction_leaves_it_to_the_parent(folder):
    code = """
try:
    with store.transaction() as changes:
        changes.put("emma", memory(2))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            changes.put("lydia", memory(3))
except AttarError as fault:
    print("refused", flush=True)
if child:
    store.put("anne", memory(4))
    print(*(entry.name for entry in store.documents()), store.memory("emma").tokens)
"""
    assert lines_of(folder, code) == ["refused", "anne emma lydia 2"]


def test_a_fork_may_open_a_store_that_its_parent_has_closed(folder):
    code = """
store.close()
in_a_fork(lambda: print(Store.open(sys.argv[1]).memory("emma").tokens, flush=True))
print(len(Store.open(sys.argv[1])))
"""
    assert lines_of(folder, code) == ["1", "1"]


# LMDB's state after a kill within a commit: the change is in the file, but the number of the last change in
# lock.mdb, by which readers choose what they see, is still the one before, and the dead writer has the lock.
KILLED_IN_COMMIT = """
import mmap, os, signal, struct, sys
import numpy as np
from attar.memory import Memory
from attar.store import Store

store = Store.open(sys.argv[1])
store.put("emma", Memory.of_matrix(np.eye(4), tokens=2, reader="reader-1"))
last = store.stats().changes
unfinished = store._environment.map.begin(write=True)
with open(store.path / "lock.mdb", "r+b") as file:
    table = mmap.mmap(file.fileno(), 0)
    at = table.find(struct.pack("=Q", last), 0, 256)
    assert at > 0
    table[at : at + 8] = struct.pack("=Q", last - 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["for writing", "read-only"])
def test_a_change_whose_writer_was_killed_in_the_commit_shows_when_the_store_is_opened(
    store, folder, make_memory, options
):
    store.put("emma", make_memory(1))
    ran = subprocess.run([sys.executable, "-c", KILLED_IN_COMMIT, folder], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (-9, "")
    assert store.memory("emma").tokens == 1
    code = f"from attar.store import Store; print(Store.open({str(folder)!r}, **{options}).memory('emma').tokens)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("2", "")
    assert store.memory("emma").tokens == 2
    assert list(store.check()) == []
