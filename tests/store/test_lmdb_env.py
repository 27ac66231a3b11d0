"""Many processes read while one writes; a fork must open the store itself."""

import subprocess
import sys

import pytest

from attar.errors import BusyError
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, put

pytestmark = pytest.mark.slow

# What another process does with the store: it runs the lines from its standard input.
OTHER = """
import sys
from attar.errors import AttarError
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, put

store = Store.open(sys.argv[1])
changes = None
for line in sys.stdin:
    try:
        print(eval(line) if not line.startswith("!") else exec(line[1:]), flush=True)
    except AttarError as fault:
        print(fault, flush=True)
"""


class Other:
    """Another process that has the store open, and runs the lines that it gets."""

    def __init__(self, folder):
        command = [sys.executable, "-c", OTHER, str(folder)]
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
    other = Other(folder)
    assert other.do("len(store)") == "0"
    yield other
    other.process.stdin.close()
    other.process.wait()
    other.process.stdout.close()


def test_what_one_process_writes_another_reads_at_once(store, other):
    for number in range(5):
        put(store, "emma", make_memory(number))
        assert other.do("memory_in(store, 'emma').tokens") == str(number)
        other.do(f"put(store, 'lydia', make_memory({number}))")
        assert memory_in(store, "lydia").tokens == number


def test_a_second_writing_process_waits_or_times_out(store, other):
    other.do("!held = store.transaction(); changes = held.__enter__(); put(changes, 'lydia', make_memory(2))")
    with pytest.raises(BusyError, match="another writer"), store._environment.writing(0.05):
        pass
    other.start("held.__exit__(None, None, None)")
    put(store, "emma", make_memory(1))
    other.end()
    assert [entry.name for entry in store.documents()] == ["emma", "lydia"]


def test_two_processes_that_create_a_store_at_once_create_one(tmp_path):
    others = [Other(tmp_path / "new") for _ in range(2)]
    for number, other in enumerate(others):
        other.start(f"put(store, '{number}', make_memory({number}))")
    for other in others:
        other.end()
        other.process.communicate()
    with Store.open(tmp_path / "new") as store:
        assert [entry.name for entry in store.documents()] == ["0", "1"]


def test_a_store_open_in_another_process_is_not_compacted_and_stays_usable(store, other):
    put(store, "emma", make_memory(1))
    with pytest.raises(BusyError, match="another process has it open; end that first"):
        store.compact()
    assert memory_in(store, "emma") == make_memory(1)
    assert other.do("memory_in(store, 'emma').tokens") == "1"
    assert "another process has it open" in other.do("store.compact()")
    other.do("put(store, 'lydia', make_memory(2))")
    assert memory_in(store, "lydia").tokens == 2


START = """
import os, sys
from attar.errors import AttarError
from attar.store.store import Store
from tests.store.made import make_memory, memory_in, put

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
put(store, "emma", make_memory(1))
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
        "put(store, 'a', make_memory(2))",
        "list(store.check())",
        "store.compact()",
        "Store.open(sys.argv[1])",
    ],
)
def test_using_a_parents_store_in_a_fork_raises(folder, work):
    line, still = lines_of(folder, f"in_a_fork(lambda: {work})\nprint(memory_in(store, 'emma').tokens)")
    assert line.endswith(
        "was opened before this process was forked;"
        " close it before forking, or start processes by spawning them"
    )
    assert still == "1"


# LMDB's state after a kill within a commit: the change is in the file, but the number of the last change in
# lock.mdb, by which readers choose what they see, is still the one before, and the dead writer has the lock.
KILLED_IN_COMMIT = """
import mmap, os, signal, struct, sys
from attar.store.store import Store
from tests.store.made import make_memory, put

store = Store.open(sys.argv[1])
put(store, "emma", make_memory(2))
last = store._environment.map.info()["last_txnid"]
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
    store, folder, options
):
    put(store, "emma", make_memory(1))
    ran = subprocess.run([sys.executable, "-c", KILLED_IN_COMMIT, folder], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (-9, "")
    assert memory_in(store, "emma").tokens == 1
    code = "from attar.store.store import Store; from tests.store.made import memory_in"
    code += f"; print(memory_in(Store.open({str(folder)!r}, **{options}), 'emma').tokens)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("2", "")
    assert memory_in(store, "emma").tokens == 2
    assert list(store.check()) == []
