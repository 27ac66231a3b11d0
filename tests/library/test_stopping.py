"""Long work has an owner: whatever it does, it asks whether it is still wanted, and then changes nothing."""

from collections.abc import Callable

import pytest

from attar.library.library import Library
from attar.progress import StoppedError, stopped_by

TEXT = "Ann met Bob in the old town of Bath. Then she left. " * 40
WORK: dict[str, Callable[[Library], object]] = {
    "add": lambda library: library.add("new", TEXT),
    "append": lambda library: library.append("kept", TEXT),
    "reread": lambda library: library.reader.read(TEXT),
    "make signatures": lambda library: library.refit(),
    "ask": lambda library: library.ask("kept", "Who left?"),
    "ask all": lambda library: library.ask_all("Who left?"),
    "search": lambda library: library.search("Who left?"),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_is_stopped(library: Library, work: Callable[[Library], object]) -> None:
    library.add("kept", "Bob left.")
    before = list(library.documents())
    with stopped_by(lambda: True), pytest.raises(StoppedError):
        work(library)
    assert list(library.documents()) == before
    work(library)
