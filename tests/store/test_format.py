"""Files of format version 1, as 0.3.0 wrote them, open in every later version and answer as they did.

`format_1` is never written again: a store (`data.mdb`, compressed), an export, the records of a memory of phrases and
of one of fixed size, their reader, the manifest of a folder of shards, and what all of them said then. A new version of
the format gets a folder of its own next to it.
"""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from attar.cluster.shards import shard_paths
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.store.parquet import import_store

KEPT = Path(__file__).parent / "format_1"
EXPECTED = json.loads((KEPT / "expected.json").read_text(encoding="utf-8"))
QUESTIONS = ("Who wrote a letter?", "Where did they meet?", "Who moved?")
# Of the dates only that they are kept.
COMPARED = ("name", "title", "tokens", "bytes", "text_bytes", "digest", "tags", "metadata", "source")


def described(library: Library) -> dict[str, Any]:
    """What a library says: documents, texts, answers and search, as JSON has it."""
    shown = {document.name: library.show(document.name) for document in library.documents()}
    return json.loads(
        json.dumps(
            {
                "documents": [
                    {field: getattr(document, field) for field in COMPARED} for document in shown.values()
                ],
                "texts": {name: document.text for name, document in shown.items()},
                "answers": {
                    f"{name}: {question}": [
                        [answer.text, answer.start, answer.end, answer.quote]
                        for answer in library.ask(name, question)
                    ]
                    for name in shown
                    for question in QUESTIONS
                },
                "found": {
                    question: [hit.document for hit in library.search(question)] for question in QUESTIONS
                },
            }
        )
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(lzma.decompress((KEPT / "data.mdb.xz").read_bytes()))
    return folder


def test_a_store_opens_and_answers_as_it_did(store: Path) -> None:
    with Library(store, KEPT / "reader") as library:
        assert described(library) == EXPECTED
        assert list(library.store.check()) == []


def test_a_store_is_changed_as_any_other(store: Path) -> None:
    with Library(store, KEPT / "reader") as library:
        library.append("harbour", "Bob left.")
        library.remove("all")
        library.add("new", "Jo met Ann.")
        assert library.text("harbour") == EXPECTED["texts"]["harbour"] + "\n\nBob left."
        assert [document.name for document in library.documents()] == [
            "harbour",
            "letters/ann",
            "new",
            "Ωμέγα 🜁",
        ]
        assert list(library.store.check()) == []


def test_an_export_is_imported_whole(tmp_path: Path) -> None:
    with Library(tmp_path / "new", KEPT / "reader") as library:
        import_store(library.store, KEPT / "export.parquet")
        assert described(library) == EXPECTED


def test_a_folder_of_shards_is_opened(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    shutil.copy(KEPT / "shards.json", folder)
    shutil.copy(KEPT / "shard.json", store)
    store.rename(folder / "shard-00000")
    assert shard_paths(folder) == [folder / "shard-00000"]


def test_the_record_of_a_memory_of_fixed_size_is_read_and_written_byte_for_byte() -> None:
    record = (KEPT / "fixed.bin").read_bytes()
    memory = Memory.from_bytes(record)
    assert memory.to_bytes() == record
    assert (memory.form, memory.tokens, memory.numbers.shape) == ("ridge", 38, (8, 6 + 8))
    assert len(memory.phrases) == 16


def test_the_record_of_a_memory_is_read_and_written_byte_for_byte(store: Path) -> None:
    record = (KEPT / "memory.bin").read_bytes()
    memory = Memory.from_bytes(record)
    assert memory.to_bytes() == record
    with Library(store, KEPT / "reader") as library:
        assert library.store.get("harbour").memory == memory


def test_a_text_gives_the_memory_that_it_gave(tmp_path: Path) -> None:
    with Library(tmp_path / "new", KEPT / "reader") as library:
        memory = library.reader.read(EXPECTED["texts"]["harbour"])
        assert memory.phrases == Memory.from_bytes((KEPT / "memory.bin").read_bytes()).phrases
