"""`attar shard`."""

import json
from pathlib import Path

import pytest

from .conftest import assert_one_line


def test_a_library_is_split_and_joined_again(filled, listed):
    assert filled("shard", "S", "--into", 2, "--out", "two") == (0, ["3 documents in 2 shards: two"], [])
    parts = [listed(f"two/shard-0000{number}") for number in range(2)]
    assert sorted([*parts[0], *parts[1]]) == listed("S")
    code, (line,), _ = filled("shard", "two", "--into", 1, "--out", "one", "--json")
    assert (code, json.loads(line)) == (0, {"documents": 3, "shards": 1, "folder": "one"})
    assert listed("one") == listed("S")


def test_without_out_the_shards_are_next_to_the_library(filled, listed, monkeypatch):
    assert filled("shard", "S", "--into", 2) == (0, ["3 documents in 2 shards: S-2"], [])
    assert_one_line(filled("shard", "S", "--into", 2), "S-2 already exists; choose another --out")
    assert filled("shard", "S-2/", "--into", 1)[0] == 0
    assert listed("S-2-1") == listed("S")
    monkeypatch.chdir("S")
    folder = Path("..").resolve() / "S-3"
    code, (line,), _ = filled("shard", ".", "--into", 3, "--json")
    assert (code, json.loads(line)["folder"]) == (0, str(folder))


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
