"""Statistics of search fitted to all shards of a library, in this process and with Ray: the same sums."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from attar.cluster.encoding import Workers
from attar.cluster.refitting import fit_statistics
from attar.cluster.sharded import ShardedLibrary
from attar.cluster.shards import shard_paths, split
from attar.errors import OptionError
from attar.library import refitting
from attar.library.library import Library
from attar.search.records import SignatureRecord
from attar.search.statistics import Statistics
from attar.store.store import Store
from benchmarks.stories import story_texts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several for each actor."""
    monkeypatch.setattr(refitting, "_BATCH", 400)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    with Library(tmp_path / "library") as library:
        library.add_many((f"story {at}", text[:300]) for at, text in enumerate(story_texts(8)))
    return tmp_path / "library"


@pytest.fixture
def shards(library: Path, tmp_path: Path) -> Path:
    split(library, tmp_path / "shards", 3)
    return tmp_path / "shards"


def fitted(*paths: Path) -> tuple[set[bytes | None], dict[str, bytes]]:
    """The statistics of stores, and the signatures of all documents."""
    statistics, signatures = set(), {}
    for path in paths:
        with Store.open(path, create=False, read_only=True) as store, store.snapshot() as now:
            statistics.add(now.signatures.statistics)
            for entry in now.documents():
                signatures[entry.name] = now.signature(entry) or b""
    return statistics, signatures


def test_shards_are_fitted_together(library, shards):
    before, _ = fitted(*shard_paths(shards))
    assert fit_statistics(shards, ray=False).signatures == 8
    (data,), signatures = fitted(*shard_paths(shards))
    assert before != {data}
    with Library(library) as whole:
        whole.refit()
    (expected,), others = fitted(library)
    one, other = Statistics.from_bytes(data), Statistics.from_bytes(expected)
    # The order of documents is another one, so that sums are equal up to rounding.
    assert (one.documents, one.tokens) == (other.documents, other.tokens) == (8, other.tokens)
    assert (one.frequencies == other.frequencies).all()
    np.testing.assert_allclose(one.total, other.total, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=2e-3, atol=1e-6)
    assert signatures.keys() == others.keys()
    with ShardedLibrary.open(shards) as opened, Library(library) as whole:
        found = opened.search("Who met in the garden?", 3).value
        assert [hit.document for hit in found] == [
            hit.document for hit in whole.search("Who met in the garden?", top=3)
        ]


def test_actors_of_ray_fit_the_same_byte_for_byte_also_if_one_dies(ray_cluster, library, shards):
    fit_statistics(shards, ray=False)
    expected = fitted(*shard_paths(shards))
    split(library, shards.with_name("with-ray"), 3)
    told: list[str] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (pids := actors()):
            time.sleep(0.02)
        os.kill(pids[0], signal.SIGKILL)
        told.append("killed")

    thread = threading.Thread(target=kill_one)
    thread.start()
    done = fit_statistics(shards.with_name("with-ray"), address=ray_cluster, workers=Workers(actors=2))
    thread.join()
    assert (done.signatures, told) == (8, ["killed"])
    assert fitted(*shard_paths(shards.with_name("with-ray"))) == expected


def actors() -> list[int]:
    """The actors that read, of this program's cluster: they are its grandchildren."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"ATTAR_KILLED={os.environ['ATTAR_KILLED']}".encode() in (entry / "environ").read_bytes()
            if marked and (entry / "cmdline").read_bytes().startswith(b"ray::_Actor"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_all_shards_get_the_options_that_are_given(ray_cluster, shards):
    fit_statistics(shards, ray=False, size=64, dtype="int8")
    expected = fitted(*shard_paths(shards))
    assert len(expected[0]) == 1
    records = [SignatureRecord.from_bytes(data) for data in expected[1].values()]
    assert {(each.size, each.dtype) for each in records} == {(64, "int8")}
    # Without options they stay.
    fit_statistics(shards, address=ray_cluster, workers=Workers(actors=2))
    assert fitted(*shard_paths(shards)) == expected
    with ShardedLibrary.open(shards) as opened:
        assert len(opened.search("Who met in the garden?", 3).value) == 3


def test_documents_without_a_text_are_refused_before_a_shard_is_changed(shards):
    last = shard_paths(shards)[-1]
    with Library(last, keep_text=False) as library:
        library.add("no text", "Ann Lee left.")
    before = fitted(*shard_paths(shards))
    with pytest.raises(OptionError, match=r"1 without, such as 'no text'.*--leave-out"):
        fit_statistics(shards, ray=False)
    assert fitted(*shard_paths(shards)) == before
    done = fit_statistics(shards, ray=False, leave_out=True)
    assert (done.signatures, done.left_out) == (8, 1)
    assert len(fitted(*shard_paths(shards))[0]) == 1
