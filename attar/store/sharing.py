"""One opening of each file in a process, for all of its stores: LMDB's locks allow no second."""

import os
import threading
from collections import Counter
from pathlib import Path

from attar.errors import OptionError
from attar.store.environment import Environment
from attar.store.faults import StoreError, lines_for
from attar.store.opening import DURABILITY, Durability

_lock = threading.RLock()
_open: dict[tuple[int, int], Environment] = {}
_users: Counter[Environment] = Counter()


def share(folder: Path, *, read_only: bool, durability: Durability, map_size: int) -> Environment:
    """Open the file in a folder, or give the one that is open already; `release` it when done."""
    if durability not in DURABILITY:
        raise OptionError("durability", " or ".join(map(repr, DURABILITY)), repr(durability))
    with _lock, lines_for(folder):
        status = os.stat(folder)
        place = (status.st_dev, status.st_ino)
        found = _open.get(place)
        if found is not None:
            found.refuse_fork()
        if found is None or not found.serves(folder):
            found = Environment(folder, read_only=read_only, durability=durability, map_size=map_size)
            _open[place] = found
        elif not read_only:
            refuse_difference(found, durability)
        _users[found] += 1
        return found


def refuse_difference(found: Environment, durability: Durability) -> None:
    """Refuse to write by other rules than those that the file is open with."""
    came = "open for reading only" if found.read_only else f"open with durability {found.durability!r}"
    if found.read_only or found.durability != durability:
        expected = "to open it alike everywhere in a process"
        raise StoreError(f"store {found.folder}", expected, f"one {came}", "close that first")


def release(environment: Environment) -> None:
    """Close a file that nobody in this process uses any more."""
    if environment.forked:
        return
    with _lock:
        if _users[environment] == 1:
            environment.close()
            for place in [place for place, found in _open.items() if found is environment]:
                del _open[place]
            del _users[environment]
        else:
            _users[environment] -= 1


def _forget_all() -> None:
    global _lock
    _lock = threading.RLock()
    for environment in _users:
        environment.forget()


os.register_at_fork(after_in_child=_forget_all)
