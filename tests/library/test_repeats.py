"""A change with a key is made once, however often it is repeated, by whom, and whatever happens in between."""

import threading

import pytest

from attar.errors import NameTakenError, OptionError
from attar.library.adding import CHANGE_IDS
from attar.library.library import Library

TEXT = "Then Zoe met Max in Oslo."


@pytest.fixture
def library(tmp_path, reader, texts):
    with Library(tmp_path / "library", reader, keep_text=True) as library:
        library.add("emma", texts[0])
        yield library


def count(library, name="emma"):
    return library.show(name).text.count(TEXT)


def test_the_same_key_and_text_append_once(library):
    first = library.append("emma", TEXT, key="k")
    assert library.append("emma", TEXT, key="k") == first
    assert count(library) == 1


def test_a_repeat_is_recognised_after_other_changes(library):
    library.append("emma", TEXT, key="k")
    for at in range(CHANGE_IDS - 2):
        library.append("emma", "Eve came.", key=str(at))
    library.append("emma", "Then Eve left.")
    library.append("emma", TEXT, key="k")
    assert count(library) == 1


def test_two_repeats_at_the_same_time_append_once(library):
    threads = [
        threading.Thread(target=library.append, args=("emma", TEXT), kwargs={"key": "k"}) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(library) == 1


def test_a_repeated_merge_is_no_conflict(library, texts):
    library.add("other", texts[1])
    first = library.merge("both", ["emma", "other"], key="k")
    assert library.merge("both", ["emma", "other"], key="k") == first
    with pytest.raises(NameTakenError):
        library.merge("both", ["emma", "other"], key="another")


@pytest.mark.parametrize("key", ["", "x" * 256, "ä", "a\nb"])
def test_a_key_is_short_and_printable(library, key):
    with pytest.raises(OptionError, match="key"):
        library.append("emma", TEXT, key=key)
    assert count(library) == 0
