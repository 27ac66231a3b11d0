"""A library in shards: split by names, moved, joined again, and refused where something is wrong."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from attar.cluster.shards import is_sharded, shard_of, shard_paths, split
from attar.errors import AttarError, FormatError, ReaderMismatchError, StoreError
from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store

NAMES = [f"letters/{number}" for number in range(60)] + ["Emma", "straße", "x" * 600]


def memory_of(name: str, reader: str = "reader-1") -> Memory:
    index = PhraseIndex.of(name, [(0, len(name), 0, 0.5)], [(0, len(name))], [[1]])
    vectors = np.random.default_rng(sum(name.encode())).normal(size=(1, 4)).astype(np.float32)
    return Memory.quantized(vectors, form="phrases", phrases=index, tokens=len(name), reader=reader)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "source") as store, store.transaction() as changes:
        for name in NAMES:
            record = Record.of(
                DocumentEntry(name=name, title=name.upper()), memory_of(name), text=f"The text of {name}."
            )
            changes.put(record, reader="reader-1")
    return tmp_path / "source"


@pytest.fixture
def shards(source: Path, tmp_path: Path) -> Path:
    split(source, tmp_path / "shards", 4)
    return tmp_path / "shards"


def records(*paths: Path) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for path in paths:
        with Store.open(path, create=False, read_only=True) as store:
            found |= {entry.name: store.get(entry.name) for entry in store.documents()}
    return found


def test_every_document_is_in_the_shard_of_its_name_and_unchanged(source, shards):
    assert is_sharded(shards)
    assert not is_sharded(source)
    paths = shard_paths(shards)
    for number, path in enumerate(paths):
        assert {shard_of(name, 4) for name in records(path)} == {number}
    assert records(*paths) == records(source)


def test_signatures_and_their_statistics_go_with_the_documents(source, tmp_path):
    with Store.open(source, create=False) as store, store.transaction() as changes:
        changes.put_statistics(b"statistics")
        changes.put_signature(changes.entry("Emma"), b"signature of Emma")
    split(source, tmp_path / "shards", 3)
    paths = shard_paths(tmp_path / "shards")
    for path in paths:
        with Store.open(path, create=False) as store, store.snapshot() as now:
            assert now.statistics == b"statistics"
            assert list(store.check()) == []
    with Store.open(paths[shard_of("Emma", 3)], create=False) as store, store.snapshot() as now:
        ((key, changed, data),) = now.signatures()
        assert (key, changed, data) == (b"Emma", now.entry("Emma").changed, b"signature of Emma")


def test_shards_are_joined_into_a_store_like_the_first(source, shards, tmp_path):
    assert split(shards, tmp_path / "joined", 1) == len(NAMES)
    assert records(tmp_path / "joined") == records(source)
    assert not is_sharded(tmp_path / "joined")


def change_manifest(shards, change):
    manifest = json.loads((shards / "shards.json").read_text())
    change(manifest["shards"])
    (shards / "shards.json").write_text(json.dumps(manifest))


def test_a_shard_may_move_if_the_manifest_says_where_to(source, shards, tmp_path):
    shutil.move(shard_paths(shards)[1], tmp_path / "elsewhere")
    change_manifest(shards, lambda folders: folders.__setitem__(1, str(tmp_path / "elsewhere")))
    assert records(*shard_paths(shards)) == records(source)


def test_a_missing_shard_is_named(shards):
    shutil.rmtree(shards / "shard-00002")
    with pytest.raises(StoreError, match=r"shard 2 of .*: there is no store at .*shard-00002; bring it back"):
        shard_paths(shards)


def test_shards_in_another_order_are_refused(shards):
    change_manifest(shards, list.reverse)
    with pytest.raises(FormatError, match=r"shard 0 of .* is shard 3 of 4; restore the manifest"):
        shard_paths(shards)


def test_a_manifest_of_another_split_is_refused(source, shards, tmp_path):
    split(source, tmp_path / "other", 4)
    shutil.copy(tmp_path / "other" / "shards.json", shards / "shards.json")
    with pytest.raises(FormatError, match="is shard 0 of 4 of another split; restore the manifest"):
        shard_paths(shards)


def test_shards_of_two_readers_are_refused(shards):
    path = shard_paths(shards)[3]
    shutil.move(path / "shard.json", shards / "kept")
    shutil.rmtree(path)
    with Store.open(path) as store, store.transaction() as changes:
        changes.put(Record.of(DocumentEntry(name="emma"), memory_of("emma")), reader="reader-2")
    shutil.move(shards / "kept", path / "shard.json")
    with pytest.raises(ReaderMismatchError, match=r"different readers: .*reader-1, shard-00003 reader-2"):
        shard_paths(shards)


@pytest.mark.parametrize(
    "bad",
    [b"", b"[]", b"{}", b'{"format": 1, "id": "a", "shards": []}', b'{"format": 9, "id": "a", "shards": []}'],
)
def test_a_damaged_manifest_is_one_line(shards, bad):
    (shards / "shards.json").write_bytes(bad)
    with pytest.raises(AttarError, match=r"shards\.json"):
        shard_paths(shards)


def test_a_split_that_fails_leaves_nothing(source, tmp_path):
    with pytest.raises(StoreError):
        split(tmp_path / "nowhere", tmp_path / "shards", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
