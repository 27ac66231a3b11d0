"""`attar store check|compact|stats`, `attar export` and `attar import`."""

import json
from pathlib import Path

import lmdb


def test_a_truncated_store_is_one_line(filled):
    with Path("S/data.mdb").open("r+b") as file:
        file.truncate(9_000)
    for command in (["list", "S"], ["add", "S", "stories"], ["store", "check", "S"]):
        code, lines, errors = filled(*command)
        assert (code, lines, len(errors)) == (2, [], 1)
        assert "restore it from a copy" in errors[0]


def test_check_exits_with_0_only_if_all_records_are_intact(filled):
    assert filled("store", "check", "S") == (0, ["3 documents, all intact"], [])
    with lmdb.open("S") as environment, environment.begin(write=True) as transaction:
        value = bytearray(transaction.get(b"mstory1"))
        value[-1] ^= 1
        transaction.put(b"mstory1", bytes(value))
    code, (line,), _ = filled("store", "check", "S")
    assert code == 2
    assert "'story1'" in line
    code, (line,), _ = filled("store", "check", "S", "--json")
    assert code == 2
    assert [fault["name"] for fault in json.loads(line)["faults"]] == ["story1"]


def test_compact_returns_the_space_of_removed_documents(filled):
    Path("long.txt").write_text("".join(f"Then Ann met {number}. " for number in range(20_000)))
    filled("add", "S", "long.txt", "--keep-text")
    filled("remove", "S", "long")
    before = Path("S/data.mdb").stat().st_size
    _, (line,), _ = filled("store", "compact", "S", "--json")
    saved = json.loads(line)["saved_bytes"]
    assert saved > 10_000
    assert before - Path("S/data.mdb").stat().st_size == saved
    assert filled("store", "compact", "S")[1] == ["0 bytes saved"]


def test_stats_counts_documents(filled):
    filled("remove", "S", "story0")
    assert json.loads(filled("store", "stats", "S", "--json")[1][0])["documents"] == 2
    code, lines, _ = filled("store", "stats", "S")
    assert code == 0
    assert ["documents", "2"] in [line.split() for line in lines]


def test_export_and_import(filled, listed):
    assert filled("export", "S", "s.parquet")[1] == ["3 documents exported"]
    assert filled("import", "T", "s.parquet")[1] == ["3 documents imported"]
    assert filled("import", "T", "s.parquet")[1] == ["0 documents imported"]
    assert listed("T") == listed()
    assert filled("ask", "T", "story0", "Who left?") == filled("ask", "S", "story0", "Who left?")
