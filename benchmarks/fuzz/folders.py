"""Targets: Parquet files of stores, readers' folders."""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from attar.reader.folders import NetworkConfig
from attar.reader.parts import fingerprint_of
from attar.reader.reader import Reader
from attar.store.parquet import export_store, import_store
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store
from benchmarks.fuzz.mutations import mutated_bytes, mutated_json, mutated_table
from benchmarks.fuzz.records import memories
from benchmarks.fuzz.target import Target, in_fork, refused
from benchmarks.tiny_reader import save_tiny_reader


def _written(table: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    try:
        pq.write_table(table, file, compression="zstd")
    except (pa.ArrowException, ValueError, KeyError):  # what Arrow cannot write nobody can send
        return b""
    return file.getvalue()


@contextmanager
def import_target(folder: Path) -> Iterator[Target]:
    """`attar import`: afterwards the store is whole, and can be listed, shown and exported."""
    import pyarrow.parquet as pq

    made, file, copy = folder / "made", folder / "some.parquet", folder / "copy"
    with Store.open(made) as store:
        for number, memory in enumerate(memories()):
            record = Record.of(
                DocumentEntry(name=f"doc {number}", title="Title"), memory, text=f"text {number}"
            )
            with store.transaction() as changes:
                changes.put(record, reader=memory.reader)
        with store.transaction() as changes:
            changes.put(
                Record.of(DocumentEntry(name="without text"), memories()[0]), reader=memories()[0].reader
            )
        export_store(store, folder / "whole.parquet")
    whole = (folder / "whole.parquet").read_bytes()

    def take() -> None:
        with refused(), Store.open(copy) as store:
            with refused():
                import_store(store, file)
            names = [str(entry.name) for entry in store.documents()]
            if faults := list(store.check()):
                raise AssertionError(f"an import that the check finds: {faults[0].line[:300]}")
            for name in names:
                str(store.get(name).text)
            if export_store(store, folder / "again.parquet") != len(names):
                raise AssertionError("an export of another number of documents")

    def check(example: bytes) -> None:
        shutil.rmtree(copy, ignore_errors=True)
        file.write_bytes(example)
        in_fork(take)

    tables = mutated_table(lambda: pq.read_table(io.BytesIO(whole))).map(_written)
    yield Target(tables | tables | mutated_bytes(whole), check)


@contextmanager
def reader_target(folder: Path) -> Iterator[Target]:
    """Readers' folders: refused, or they read and answer; one that was not forged answers as the original does."""
    made, changed = save_tiny_reader(folder / "made"), folder / "changed"
    text, question = "Then Ann met Bob. Bob left.", "Who left?"

    def answers(place: Path) -> list[str]:
        reader = Reader.load(place)
        return [each.text for each in reader.answer(reader.read(text), question)]

    # Imports what every fork would.
    expected = answers(made)

    def use(forged: bool) -> None:
        with refused():
            found = answers(changed)
            if not forged and found != expected:
                raise AssertionError("damaged files that answer otherwise")

    def check(example: tuple[tuple[str, bytes], bool]) -> None:
        (name, data), forged = example
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(made, changed)
        (changed / name).write_bytes(data)
        if forged:
            _forge(changed)
        in_fork(lambda: use(forged))

    yield Target(st.tuples(_changed_files(made), st.booleans()), check)


def _changed_files(folder: Path) -> st.SearchStrategy[tuple[str, bytes]]:
    """A file of a reader's folder, and what it is replaced with."""
    weights = (folder / "weights.safetensors").read_bytes()
    header_size = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + header_size])

    def new_header(value: Any) -> bytes:
        data = json.dumps(value).encode()
        return len(data).to_bytes(8, "little") + data + weights[8 + header_size :]

    changes = [st.tuples(st.just("weights.safetensors"), mutated_json(header).map(new_header))]
    for name in ("config.json", "tokenizer.json", "weights.safetensors"):
        data = (folder / name).read_bytes()
        changes.append(st.tuples(st.just(name), mutated_bytes(data)))
        if name.endswith(".json"):
            dumped = mutated_json(json.loads(data)).map(lambda value: json.dumps(value).encode())
            changes.append(st.tuples(st.just(name), dumped))
    return st.one_of(changes)


def _forge(folder: Path) -> None:
    """Give changed files the fingerprint that fits them, where there is one."""
    import safetensors.numpy

    try:
        config = json.loads((folder / "config.json").read_bytes())
        weights = safetensors.numpy.load((folder / "weights.safetensors").read_bytes())
        tokenizer = (folder / "tokenizer.json").read_bytes()
        config["fingerprint"] = fingerprint_of(
            msgspec.convert(config["network"], NetworkConfig), tokenizer, weights
        )
        (folder / "config.json").write_text(json.dumps(config))
    except Exception:  # no files of this kind: they stay as they are
        return
