"""Keys, envelopes and versions of the format: what was written is read back, or an error says why not."""

import importlib.util
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import OptionError, RecordError
from attar.store import format, maintenance
from attar.store.format import (
    HEADER_KEY,
    LONGEST_PLAIN_KEY,
    PADDING,
    VERSION,
    key_of,
    unwrap,
    version_of,
    wrap,
)
from attar.store.maintenance import MIGRATIONS, migrate
from attar.store.store import Store

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("name", ["a/b/../c", "two\nlines", "\0", "Ωμέγα 🜁", " ", "x" * 10_000, "é" * 10_000])
def test_any_name_has_a_key_of_at_most_511_bytes(name: str) -> None:
    assert 0 < len(b"f" + key_of(name)) <= 511


@pytest.mark.parametrize(("name", "message"), [("", "at least one character"), ("\ud800", "surrogate")])
def test_invalid_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        key_of(name)


@given(TEXTS, TEXTS)
def test_keys_of_short_names_are_in_the_order_of_the_names(one: str, other: str) -> None:
    assert (key_of(one) < key_of(other)) == (one < other)


def test_long_names_that_begin_alike_have_different_keys() -> None:
    assert key_of("x" * 999) != key_of("x" * 1000)


def test_no_short_name_has_the_key_of_a_long_one() -> None:
    lookalike = key_of("x" * 999).decode("latin-1")
    assert key_of(lookalike) != key_of("x" * 999)
    assert len(key_of("x" * LONGEST_PLAIN_KEY)) < len(key_of("x" * (LONGEST_PLAIN_KEY + 1)))


PAYLOAD = bytes(range(50))


@given(st.sampled_from(sorted(PADDING)), st.binary())
def test_unwrap_returns_the_wrapped_payload(kind: bytes, payload: bytes) -> None:
    assert bytes(unwrap(kind, wrap(kind, payload), "emma")) == payload


def test_a_stored_memory_is_aligned_to_a_cache_line() -> None:
    page_header = 16
    assert (page_header + len(wrap(b"m", b""))) % 64 == 0


@pytest.mark.parametrize("kind", sorted(PADDING))
def test_every_truncation_is_detected(kind: bytes) -> None:
    value = wrap(kind, PAYLOAD)
    for length in range(len(value)):
        with pytest.raises(RecordError, match="a whole record"):
            unwrap(kind, value[:length], "emma")


@pytest.mark.parametrize("kind", sorted(PADDING))
def test_every_flipped_bit_is_detected_and_never_taken_for_a_newer_version(kind: bytes) -> None:
    value = wrap(kind, PAYLOAD)
    for bit in range(8 * len(value)):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError, match="a whole record"):
            unwrap(kind, bytes(flipped), "emma")


def test_an_envelope_of_another_kind_is_refused() -> None:
    with pytest.raises(RecordError, match="other bytes"):
        unwrap(b"f", wrap(b"t", PAYLOAD), "emma")


@pytest.mark.parametrize(("version", "remedy"), [(VERSION + 1, "update attar"), (VERSION - 1, "other bytes")])
def test_an_envelope_of_another_version_is_refused(version: int, remedy: str) -> None:
    value = wrap(b"f", PAYLOAD, version=version)
    assert version_of(value) == version
    with pytest.raises(RecordError, match=remedy):
        unwrap(b"f", value, "emma")


def test_the_error_for_a_name_with_line_breaks_is_one_line() -> None:
    with pytest.raises(RecordError) as caught:
        unwrap(b"f", b"", "a\nb" * 10_000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


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
        transaction.put(HEADER_KEY, wrap(b"a", b"whatever comes then", version=version))


def test_there_is_a_store_of_every_version():
    assert sorted(
        int(path.name) for path in VERSIONS.iterdir() if path.is_dir() and path.name.isdigit()
    ) == list(range(1, VERSION + 1))


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_store_of_each_version_opens_and_has_its_documents(kept, version):
    written = writer()
    with Store.open(kept(version), reader="reader-1", create=False) as store:
        assert store.dtype == "float16"
        assert [entry.name for entry in store.documents()] == sorted(written.TEXTS)
        for number, (name, text) in enumerate(written.TEXTS.items(), start=1):
            record = store.get(name)
            assert record.memory == written.memory(number).astype("float16")
            assert (record.text, record.entry.title, record.entry.tokens) == (text, name.title(), number)
        assert list(store.check()) == []
        store.put("new", written.memory(9))
        assert store.stats().version == VERSION


def test_a_newer_store_is_refused_and_left_unchanged(folder):
    make_newer(folder, VERSION + 1)
    before = (folder / "data.mdb").read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(
            RecordError, match=f"expected version {VERSION}, got version {VERSION + 1}; update attar"
        ):
            Store.open(folder, **options)
    assert (folder / "data.mdb").read_bytes() == before


def test_an_earlier_store_is_upgraded_in_one_transaction(kept, monkeypatch):
    steps = []

    def rewrite(transaction, version):
        steps.append(version)
        transaction.put(HEADER_KEY, bytes(transaction.get(HEADER_KEY)))

    monkeypatch.setattr(format, "VERSION", VERSION + 1)
    monkeypatch.setattr(maintenance, "migrate", rewrite)
    with Store.open(kept(VERSION)) as store:
        assert steps == [VERSION]
        assert store.stats().changes == 2


def test_a_failed_migration_leaves_the_store_unchanged(kept, monkeypatch):
    def half(transaction, version):
        transaction.delete(HEADER_KEY)
        raise ZeroDivisionError

    folder = kept(VERSION)
    with monkeypatch.context() as patch:
        patch.setattr(format, "VERSION", VERSION + 1)
        patch.setattr(maintenance, "migrate", half)
        with pytest.raises(ZeroDivisionError):
            Store.open(folder)
    with Store.open(folder) as store:
        assert list(store.check()) == []


def test_migrations_run_step_by_step():
    order = []
    steps = {n: lambda transaction, n=n: order.append(n) for n in (1, 2, 3)}
    assert migrate(None, 2, newest=4, migrations=steps) == [2, 3] == order


def test_there_is_a_migration_from_every_earlier_version():
    assert sorted(MIGRATIONS) == list(range(1, VERSION))


def test_a_version_without_a_migration_is_refused():
    with pytest.raises(RecordError, match="version 3"):
        migrate(None, 3, newest=4, migrations={})
