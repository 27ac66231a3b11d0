"""`attar watch` as a process: it follows a folder and ends at a signal; mistakes are one line."""

import signal

import pytest

from attar.library.library import Library
from tests.running import Running


@pytest.fixture
def watch(place, reader):
    started = []

    def start(*arguments):
        started.append(Running("watch", *arguments, "--reader", reader))
        return started[-1]

    yield start
    for watching in started:
        watching.stop(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_folder_is_followed_until_a_signal_ends_it(place, watch, texts, number):
    watching = watch("S", "stories")
    watching.wait_for("3 added")
    watching.wait_for("attar: watching stories; stop with Ctrl+C")
    (place / "stories" / "new.txt").write_text(texts[4])
    watching.wait_for("added new: ")
    (place / "stories" / "new.txt").write_text(texts[5])
    watching.wait_for("replaced new: ")
    (place / "stories" / "new.txt").rename(place / "stories" / "old.txt")
    watching.wait_for("added old: ")
    watching.wait_for("removed new")
    assert watching.stop(number) == 0
    assert watching.lines[-1].startswith("attar: stopped; S stays as it is")
    assert "Traceback" not in "".join(watching.lines)
    with Library("S", read_only=True) as library:
        assert [document.name for document in library.documents()] == [
            "old",
            "story0",
            "story1",
            "sub/story2",
        ]
        assert list(library.store.check()) == []


@pytest.mark.slow
def test_a_folder_that_vanishes_ends_it_with_one_line_and_the_documents_stay(place, watch):
    watching = watch("S", "stories", "--json")
    watching.wait_for('"changes"')
    (place / "stories").rename(place / "away")
    assert watching.end() == 2
    assert watching.lines[-1] == (
        "attar: stories is gone; its documents stay; watch it again when it is back\n"
    )
    with Library("S", read_only=True) as library:
        assert len(library) == 3
