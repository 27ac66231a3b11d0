"""`attar store check|repair|compact|stats`, `attar export`, `attar import` and `attar shard`."""

import json
from pathlib import Path

import lmdb
import msgspec
import pytest

from attar.memory.memory import wrap

from .conftest import assert_one_line


def test_a_truncated_store_is_one_line(filled):
    with Path("S/data.mdb").open("r+b") as file:
        file.truncate(9_000)
    for command in (["list", "S"], ["add", "S", "stories"], ["store", "check", "S"]):
        code, lines, errors = filled(*command)
        assert (code, lines, len(errors)) == (2, [], 1)
        assert "the store file is truncated; restore a copy" in errors[0]
    assert "no document can be read" in filled("store", "repair", "S")[2][0]


def test_check_exits_with_0_only_if_all_records_are_intact(filled):
    assert filled("store", "check", "S") == (0, ["3 documents, all intact"], [])
    with lmdb.open("S") as environment, environment.begin(write=True) as transaction:
        value = bytearray(transaction.get(b"mstory1"))
        value[-1] ^= 1
        transaction.put(b"mstory1", bytes(value))
    code, (line,), (hint,) = filled("store", "check", "S")
    assert code == 2
    assert "'story1'" in line
    assert hint.endswith("attar store repair S")
    code, (line,), _ = filled("store", "check", "S", "--json")
    assert code == 2
    assert [fault["name"] for fault in json.loads(line)["faults"]] == ["story1"]


def test_compact_returns_the_space_of_removed_documents(filled):
    Path("long.txt").write_text("".join(f"Then Ann met {number}. " for number in range(3_000)))
    filled("add", "S", "long.txt", "--keep-text")
    filled("remove", "S", "long")
    before = Path("S/data.mdb").stat().st_size
    _, (line,), _ = filled("store", "compact", "S", "--json")
    saved = json.loads(line)["saved_bytes"]
    assert saved > 10_000
    assert before - Path("S/data.mdb").stat().st_size == saved
    assert filled("store", "compact", "S")[1] == ["0 bytes saved"]


def test_export_and_import(filled, listed):
    assert filled("export", "S", "s.parquet")[1] == ["3 documents exported"]
    assert filled("import", "T", "s.parquet")[1] == ["3 documents imported"]
    assert filled("import", "T", "s.parquet")[1] == ["0 documents imported"]
    assert listed("T") == listed()
    assert filled("ask", "T", "story0", "Who left?") == filled("ask", "S", "story0", "Who left?")


def spoil(key: bytes, value: bytes) -> None:
    """Write past the library what it never would."""
    with lmdb.open("S") as environment, environment.begin(write=True) as transaction:
        transaction.put(key, value)


def test_a_bad_entry_hides_no_other_and_is_repaired(filled, listed):
    spoil(b"fstory1", wrap(b"f", msgspec.msgpack.encode(["story1", 5, b"", 0, 0, 1.5, 9, None]), ""))
    code, lines, _ = filled("list", "S")
    assert code == 0
    assert [line.split()[2] for line in (lines[1], lines[3])] == ["story0", "sub/story2"]
    assert lines[2].split()[:2] == ["damaged", "story1:"]
    assert "entry of 'story1' is damaged: Expected `str`" in lines[2]
    code, (line,), (error,) = filled("export", "S", "s.parquet")
    assert (code, line) == (2, "2 documents exported")
    assert "entry of 'story1'" in error
    assert error.endswith("(left out)")
    assert filled("ask", "S", "story0", "Who left?")[0] == 0
    assert filled("store", "check", "S")[0] == 2

    code, (line,), _ = filled("store", "repair", "S", "--json")
    report = json.loads(line)
    assert (code, report["documents"], [fault["name"] for fault in report["faults"]]) == (0, 3, ["story1"])
    assert Path(report["folder"], "data.mdb").exists()
    assert filled("store", "check", "S") == (0, ["3 documents, all intact"], [])
    assert filled("store", "repair", "S")[1] == ["3 documents, all intact: nothing to repair"]
    assert filled("ask", "S", "story1", "Who left?")[0] == 0


def test_an_import_above_the_limit_is_refused_and_a_flag_raises_it(filled):
    Path("long.txt").write_text("Then Ann met Bob." + " " * 1_200_000)
    filled("add", "S", "long.txt", "--keep-text")
    filled("export", "S", "s.parquet")
    code, _, (error,) = filled("import", "T", "s.parquet", "--max-decompressed-mb", "1")
    assert code == 2
    assert "--max-decompressed-mb" in error
    assert filled("import", "T", "s.parquet")[1] == ["4 documents imported"]


def test_export_overwrites_a_file_only_if_asked_to(filled):
    Path("s.parquet").write_text("here first")
    code, lines, (error,) = filled("export", "S", "s.parquet")
    assert (code, lines) == (2, [])
    assert error.endswith("s.parquet exists already; add --replace, or name another file")
    assert Path("s.parquet").read_text() == "here first"
    assert filled("export", "S", "s.parquet", "--replace")[1] == ["3 documents exported"]


def test_a_library_is_split_and_joined_again(filled, listed):
    assert filled("shard", "S", "--into", 2, "--out", "two") == (0, ["3 documents in 2 shards: two"], [])
    parts = [listed(f"two/shard-0000{number}") for number in range(2)]
    assert sorted([*parts[0], *parts[1]]) == listed("S")
    code, (line,), _ = filled("shard", "two", "--into", 1, "--out", "one", "--json")
    assert (code, json.loads(line)) == (0, {"documents": 3, "shards": 1, "folder": "one"})
    assert listed("one") == listed("S")


@pytest.mark.parametrize(
    "words",
    [
        ["list", "two"],
        ["show", "two", "emma"],
        ["ask", "two", "Who left?"],
        ["search", "two", "tea"],
        ["add", "two", "one.txt"],
        ["remove", "two", "emma"],
        ["store", "repair", "two"],
    ],
    ids=" ".join,
)
def test_a_folder_of_shards_is_not_one_store_and_it_is_said_what_to_do(filled, words):
    filled("shard", "S", "--into", 2, "--out", "two")
    Path("one.txt").write_text("Ann left.")
    assert_one_line(filled(*words), "is a folder of shards, not a store; name one", "--into 1 --out NEW")
    assert sorted(path.name for path in Path("two").iterdir()) == [
        "shard-00000",
        "shard-00001",
        "shards.json",
    ]
