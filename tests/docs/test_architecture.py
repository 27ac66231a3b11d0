"""The architecture page names files that exist, and the files that a document and a question pass through."""

import json
import re
import subprocess
import sys

import pytest

WAYS = ("attar add", "attar ask", "attar ask STORE QUESTION", "POST /v1/ask")


@pytest.fixture(scope="module")
def ways(root):
    """The files of each way, traced in a fresh process."""
    command = [sys.executable, root / "benchmarks" / "way.py", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_page_lists_the_files_that_a_way_passes_through(ways, page, way):
    line = page.partition(f"<!-- way: {way} -->\n")[2].partition("\n")[0]
    listed = {f"attar/{file}" for file in re.findall(r"`([\w/]+\.py)`", line)}
    assert listed == set(ways[way]), "run .venv/bin/python benchmarks/way.py --write"


def test_every_file_on_the_page_exists(page, root):
    named = re.findall(r"`((?:[a-z]+/)*[\w]+\.py|[a-z]+(?:/[a-z]+)*/)`", page)
    assert named
    assert [name for name in named if not ((root / "attar" / name).exists() or (root / name).exists())] == []
