"""Kills writers at random moments, again and again, and checks what they leave; run by `test_crashes`.

Every change writes the same number into two documents. A writer says so down a pipe once a change is
acknowledged. Readers run all the while, in processes of their own: they must never see two numbers.
It forks, so that a killed writer costs milliseconds and no imports; so it must not hold a store open itself.
"""

import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import numpy as np

from attar.memory import Memory
from attar.store import Store

PAIR = ("left", "right/" + "x" * 600)


def memory(number: int) -> Memory:
    """A memory that is this number throughout; some have pages of their own, some share one."""
    size = 8 if number % 3 else 60
    return Memory.of_matrix(np.full((size, size), float(number)), tokens=number, reader="reader-1")


def is_whole(found: Memory) -> bool:
    """Tell whether a memory is of one writing."""
    return bool((found.numbers == float(found.tokens)).all())


def write(folder: Path, start: int, acknowledge: int) -> None:
    """Write until killed."""
    store = Store.open(folder)
    number = start
    while True:
        number += 1
        with store.transaction() as changes:
            for name in PAIR:
                changes.put(name, memory(number), text=str(number))
            # Space is used anew all the time: pages come and go under the readers.
            name = f"other-{number % 7}"
            if name in changes:
                changes.remove(name)
            else:
                changes.put(name, memory(number))
        os.write(acknowledge, number.to_bytes(8, "little"))


def read(folder: Path) -> None:
    """Read until terminated; exit with code 1 on anything that is not whole."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    store, latest = Store.open(folder, read_only=True), 0
    while not ended:
        with store.snapshot() as snapshot:
            left, right = snapshot.memories(PAIR, check=True)
            texts = {snapshot.get(name).text for name in PAIR}
            alike = left.tokens == right.tokens and texts == {str(left.tokens)}
            if not (alike and is_whole(left) and is_whole(right) and left.tokens >= latest):
                os._exit(1)
            latest = left.tokens
    os._exit(0)


def forked(work, *arguments) -> int:
    """Do it in a fork that never comes back."""
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
        except BaseException as fault:
            print(repr(fault), file=sys.stderr, flush=True)
        os._exit(2)
    return child


def killed_writer(folder: Path, start: int, seconds: float, at_once: bool) -> int:
    """Run a writer, kill it so long after its first change or `at_once` after its start, give its last number."""
    ours, theirs = os.pipe()
    child = forked(write, folder, start, theirs)
    os.close(theirs)
    if not at_once:
        select.select([ours], [], [])
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read()
    return int.from_bytes(said[-8:], "little") if said else start


def main(folder: Path, kills: int) -> None:
    """Kill so many writers; print how many changes were acknowledged in all."""
    moments = random.Random(0)
    with Store.open(folder) as store, store.transaction() as changes:
        for name in PAIR:
            changes.put(name, memory(0), text="0")
    readers = [forked(read, folder) for _ in range(2)]
    number = 0
    for kill in range(kills):
        acknowledged = killed_writer(folder, number, moments.uniform(0, 0.03), at_once=kill % 4 == 3)
        with Store.open(folder) as store:
            found = [store.memory(name).tokens for name in PAIR]
            assert found[0] == found[1], f"half a change: {found}"
            # The last change may be on the disk before its writer could say so.
            assert acknowledged <= found[0] <= acknowledged + 1, (
                f"{acknowledged} acknowledged, {found[0]} found"
            )
            if kill % 5 == 0:
                faults = list(store.check())
                assert not faults, faults
            number = found[0]
    for reader in readers:
        os.kill(reader, signal.SIGTERM)
        assert os.waitpid(reader, 0)[1] == 0, "a reader saw half a change"
    print(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
