"""`attar shard`."""

import json


def test_a_library_is_split_and_joined_again(filled, listed):
    assert filled("shard", "S", "--into", 2, "--out", "two") == (0, ["3 documents in 2 shards: two"], [])
    parts = [listed(f"two/shard-0000{number}") for number in range(2)]
    assert sorted([*parts[0], *parts[1]]) == listed("S")
    code, (line,), _ = filled("shard", "two", "--into", 1, "--out", "one", "--json")
    assert (code, json.loads(line)) == (0, {"documents": 3, "shards": 1, "folder": "one"})
    assert listed("one") == listed("S")


def test_an_existing_folder_is_refused_in_one_line(filled):
    code, lines, errors = filled("shard", "S", "--into", 2, "--out", "stories")
    assert (code, lines) == (2, [])
    assert errors == [
        "attar: --out: expected a new folder, got stories, which exists; choose another",
    ]


def test_no_library_is_refused_in_one_line(filled):
    code, _, errors = filled("shard", "nowhere", "--into", 2, "--out", "two")
    assert (code, len(errors)) == (2, 1)
    assert "expected a store, got no such folder" in errors[0]
