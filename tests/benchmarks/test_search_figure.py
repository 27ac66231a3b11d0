"""The figure of the ways to rank."""

import json

import pytest

from attar.errors import FormatError
from benchmarks import search_figure

NAMES = [
    "mean vectors, float32",
    "BM25 of word pieces",
    "signature, k = 128, 1-bit",
    "signature, k = 128, 1-bit, and word pieces",
    "default: that, and the best 20 again by phrases",
    "another way",
]


def written(folder, rows):
    file = folder / "rows.json"
    file.write_text(json.dumps({"set": "squad", "documents": 3, "queries": 2, "rows": rows}))
    return file


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        {"name": name, "bytes": 10.0**at + 1, "figures": {"nDCG@10": [0.5, 0.4, 0.6]}}
        for at, name in enumerate(NAMES)
    ]
    found = search_figure.read_rows(written(tmp_path, rows))
    search_figure.draw([found, found], tmp_path / "figures" / "search.png")
    assert (tmp_path / "figures" / "search.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("rows", [[{"name": "a"}], [{"name": "a", "bytes": 0, "figures": {}}], 3])
def test_other_files_are_refused(tmp_path, rows):
    with pytest.raises(FormatError, match="retrieval SET --json"):
        search_figure.read_rows(written(tmp_path, rows))
