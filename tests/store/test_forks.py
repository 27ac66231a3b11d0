"""A fork may not use the store that its parent has open, says so, and does the parent no harm."""

import subprocess
import sys

import pytest

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
def test_a_fork_is_told_to_open_the_store_itself(folder, work):
    line, still = lines_of(folder, f"in_a_fork(lambda: {work})\nprint(store.memory('emma').tokens)")
    assert line.endswith(
        "expected the process that opened it, got a fork of that;"
        " open it after forking, or start processes by spawning them"
    )
    assert still == "1"


def test_a_fork_in_the_middle_of_a_reading_leaves_it_to_its_parent(folder):
    code = """
with store.reading() as now:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        for number in range(2, 9):
            store.put("emma", memory(number))
        print(now.memory("emma", check=True).tokens)
if child:
    print(store.memory("emma").tokens)
"""
    assert lines_of(folder, code) == ["1", "8"]


def test_a_fork_in_the_middle_of_a_change_leaves_it_to_its_parent(folder):
    code = """
try:
    with store.writing() as changes:
        changes.put("emma", memory(2))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            changes.put("lydia", memory(3))
except AttarError as fault:
    print("refused", flush=True)
if child:
    store.put("anne", memory(4))
    print(*(facts.name for facts in store.documents()), store.memory("emma").tokens)
"""
    assert lines_of(folder, code) == ["refused", "anne emma lydia 2"]


def test_a_fork_may_open_what_its_parent_has_closed(folder):
    code = """
store.close()
in_a_fork(lambda: print(Store.open(sys.argv[1]).memory("emma").tokens, flush=True))
print(len(Store.open(sys.argv[1])))
"""
    assert lines_of(folder, code) == ["1", "1"]
