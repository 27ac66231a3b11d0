"""A store of every earlier version opens, and reads as it was written; one of a later version says so."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from attar.errors import RecordError
from attar.store import Store, head, migrations
from attar.store.migrations import migrate
from attar.store.reading import HEAD
from attar.store.seal import VERSION, seal

VERSIONS = Path(__file__).parent / "versions"


def writer():
    """The module that wrote the kept stores."""
    spec = importlib.util.spec_from_file_location("write", VERSIONS / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kept(tmp_path):
    """Copies of the kept stores: opening one may bring it up to date."""

    def copied(version):
        return shutil.copytree(VERSIONS / str(version), tmp_path / str(version))

    return copied


def make_newer(folder: Path, version: int) -> None:
    with Store.open(folder) as store, store._environment.map.begin(write=True) as transaction:
        transaction.put(HEAD, seal(b"a", b"whatever comes then", version=version))


def test_there_is_a_store_of_every_version():
    assert sorted(
        int(path.name) for path in VERSIONS.iterdir() if path.is_dir() and path.name.isdigit()
    ) == list(range(1, VERSION + 1))


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_store_of_this_version_opens_and_reads_as_it_was_written(kept, version):
    written = writer()
    with Store.open(kept(version), reader="reader-1", create=False) as store:
        assert store.dtype == "float16"
        assert [facts.name for facts in store.documents()] == sorted(written.TEXTS)
        for number, (name, text) in enumerate(written.TEXTS.items(), start=1):
            record = store.get(name)
            assert record.memory == written.memory(number).astype("float16")
            assert (record.text, record.facts.title, record.facts.tokens) == (text, name.title(), number)
        assert list(store.check()) == []
        store.put("new", written.memory(9))
        assert store.stats().version == VERSION


def test_a_newer_store_is_refused_and_stays_as_it_is(folder):
    make_newer(folder, VERSION + 1)
    before = (folder / "data.mdb").read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(
            RecordError, match=f"expected version {VERSION}, got version {VERSION + 1}; update attar"
        ):
            Store.open(folder, **options)
    assert (folder / "data.mdb").read_bytes() == before


def test_an_earlier_store_is_brought_up_to_date_in_one_change(kept, monkeypatch):
    steps = []

    def rewrite(transaction, version):
        steps.append(version)
        transaction.put(HEAD, bytes(transaction.get(HEAD)))

    monkeypatch.setattr(head, "VERSION", VERSION + 1)
    monkeypatch.setattr(head, "migrate", rewrite)
    with Store.open(kept(VERSION)) as store:
        assert steps == [VERSION]
        assert store.stats().changes == 2


def test_a_migration_that_fails_leaves_the_store_as_it_was(kept, monkeypatch):
    def half(transaction, version):
        transaction.delete(HEAD)
        raise ZeroDivisionError

    folder = kept(VERSION)
    with monkeypatch.context() as patch:
        patch.setattr(head, "VERSION", VERSION + 1)
        patch.setattr(head, "migrate", half)
        with pytest.raises(ZeroDivisionError):
            Store.open(folder)
    with Store.open(folder) as store:
        assert list(store.check()) == []


def test_migrations_go_step_by_step():
    order = []
    steps = {n: lambda transaction, n=n: order.append(n) for n in (1, 2, 3)}
    assert migrate(None, 2, newest=4, migrations=steps) == [2, 3] == order


def test_there_is_a_migration_from_every_earlier_version():
    assert sorted(migrations.MIGRATIONS) == list(range(1, VERSION))


def test_a_version_that_nobody_knows_is_refused():
    with pytest.raises(RecordError, match="version 3"):
        migrate(None, 3, newest=4, migrations={})
