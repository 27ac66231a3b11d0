"""Many processes read while one writes; a second writer waits, and none sees half of anything."""

import subprocess
import sys

import pytest

from attar.store import BusyError, Store

# What another process does with the store, line by line as it is told.
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
    """Another process that has the store open, and does as it is told."""

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


def test_a_reader_follows_when_another_process_outgrows_its_map(store, other, make_memory):
    assert int(other.do("store.stats().map_bytes")) == 2**18
    for number in range(60):
        store.put(str(number), make_memory(number, 60))
    assert other.do("len(store)") == "60"
    assert other.do("sum(store.memory(facts.name).tokens for facts in store.documents())") == str(
        sum(range(60))
    )
    assert int(other.do("store.stats().map_bytes")) > 2**18
    other.do("store.put('last', memory(1))")
    assert "last" in store


def test_a_reader_reads_while_another_process_is_in_the_middle_of_a_change(store, other, make_memory):
    store.put("emma", make_memory(1))
    other.do("!changes = store.writing(); changes.__enter__(); changes.put('emma', memory(2))")
    assert store.memory("emma") == make_memory(1)
    with Store.open(store.path) as again:
        assert again.memory("emma") == make_memory(1)
    other.do("!changes.__exit__(None, None, None)")
    assert store.memory("emma").tokens == 2


def test_a_second_writing_process_is_told_or_waits(store, other, make_memory):
    other.do("!changes = store.writing(); changes.__enter__(); changes.put('lydia', memory(2))")
    with pytest.raises(BusyError, match="another writer"):
        store.put("emma", make_memory(1), timeout=0.05)
    other.start("changes.__exit__(None, None, None)")
    store.put("emma", make_memory(1))
    other.end()
    assert [facts.name for facts in store.documents()] == ["emma", "lydia"]


def test_a_killed_writers_turn_ends_with_it(store, other, make_memory):
    other.do("!changes = store.writing(); changes.__enter__(); changes.put('lydia', memory(2))")
    other.process.kill()
    store.put("emma", make_memory(1))
    assert [facts.name for facts in store.documents()] == ["emma"]


def test_two_processes_that_make_a_store_make_one(tmp_path):
    others = [Other(tmp_path / "new") for _ in range(2)]
    for number, other in enumerate(others):
        other.start(f"store.put('{number}', memory({number}))")
    for other in others:
        other.end()
        other.process.communicate()
    with Store.open(tmp_path / "new") as store:
        assert [facts.name for facts in store.documents()] == ["0", "1"]


def test_a_store_in_use_elsewhere_is_not_compacted_and_stays_usable(store, other, make_memory):
    store.put("emma", make_memory(1))
    with pytest.raises(BusyError, match="another process that has it open; end that first"):
        store.compact()
    assert store.memory("emma") == make_memory(1)
    assert other.do("store.memory('emma').tokens") == "1"
    assert "expected to be alone with it" in other.do("store.compact()")
    other.do("store.put('lydia', memory(2))")
    assert store.memory("lydia").tokens == 2
