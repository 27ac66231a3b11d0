"""A served library without signatures: they are made once, in the background; until then words find documents."""

import threading
from dataclasses import replace

import pytest

from attar.library.finding import find_candidates
from attar.library.library import Library
from attar.search.signatures import Signer

from .conftest import wait_until

NAMES = ["0", "1", "tea"]
QUESTION = {"question": "Where was tea first drunk?"}


@pytest.fixture
def unsigned(make, monkeypatch):
    """Serves a library that has lost its signatures; they are made when `go` is set."""
    made, go, sums = make(), threading.Event(), Signer.sums
    made.library.add("tea", "Quiz 77: zzz. Tea was first drunk in China.")
    with made.library.store.transaction() as changes:
        for name in NAMES:
            entry = changes.entry(name)
            unsigned = replace(changes.record(entry), signature=None)
            changes.put(unsigned, reader=made.library.fingerprint, replacing=entry)

    def wait_and_sum(signer, text):
        assert go.wait(30)
        return sums(signer, text)

    monkeypatch.setattr(Signer, "sums", wait_and_sum)
    yield made, go
    go.set()


def is_signed(library, name):
    return library.store.get(name).signature is not None


def test_documents_are_found_by_words_until_signatures_are_made_and_kept(
    unsigned, serve, folder, tiny_reader
):
    made, go = unsigned
    served = serve(made)
    wait_until(lambda: "signatures" in served.get("/readyz").text)
    assert served.get("/readyz").text == "ready\nsignatures: 0 of 3 made; others are found by words\n"
    assert served.get("/v1/status").json()["signatures"] == {"done": 0, "total": 3}
    told = served.post("/v1/ask", QUESTION).json()
    assert told["by_words"] == 3
    assert served.post("/v1/search", {"query": "tea leaves"}).json()["by_words"] == 3
    with made.library.opened() as shard:
        # The words of a reader with random weights are letters and digits.
        ((best, *_),) = find_candidates(shard.alone, ["zz 77 qq"], 3)
    assert best.name == "tea"
    assert not any(is_signed(made.library, name) for name in NAMES)
    go.set()
    wait_until(lambda: served.get("/readyz").text == "ready\n")
    assert all(is_signed(made.library, name) for name in NAMES)
    assert "by_words" not in served.post("/v1/ask", QUESTION).json()
    assert served.get("/v1/status").json()["signatures"] is None
    with Library(folder, tiny_reader, read_only=True) as library:
        hits = served.post("/v1/search", {"query": "tea leaves"}).json()["hits"]
        assert [hit["document"] for hit in hits] == [hit.document for hit in library.search("tea leaves")]
