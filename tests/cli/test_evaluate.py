"""`attar evaluate`: what it prints, and one line per mistake."""

import json
import re
from pathlib import Path

import pytest

from attar.reader.files import load_reader

from .conftest import Ran, Run, assert_one_line

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]


def test_prints_the_reader_and_the_baselines(run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
    ran = run("evaluate", "-d", stories, "--reader", trained[0])
    assert ran.returncode == 0, ran.stderr
    title, *rows, _ = ran.stdout.splitlines()
    assert title.startswith("test: ")
    assert title.endswith(" on 4 documents, 95 % intervals")
    names = [row.rsplit(None, 3)[0] for row in rows]
    assert names == ["reader", "most frequent name", "most frequent name not in the question"]


def test_prints_the_mean_size_of_a_memory(run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
    last = run("evaluate", "-d", stories, "--reader", trained[0]).stdout.splitlines()[-1]
    assert re.fullmatch(
        r"mean memory +\d+ bytes in float16, \d+ bytes in int8 \(\d+ tokens, \d+ names\)", last
    )


def test_prints_scores_by_mentions_on_request(run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
    ran = run("evaluate", "-d", stories, "--reader", trained[0], "--by-mentions")
    assert ran.returncode == 0, ran.stderr
    rows = [row for row in ran.stdout.splitlines() if ": mentioned " in row]
    assert sum(int(row.rpartition("of ")[2].removesuffix("%")) for row in rows) in range(98, 103)


def test_prints_json(run: Run, trained: tuple[Path, Ran], stories: Path) -> None:
    ran = run("evaluate", "-d", stories, "--reader", trained[0], "--split", "validation", "--json")
    told = json.loads(ran.stdout)
    assert told["split"] == "validation"
    assert told["reader"] == load_reader(trained[0]).fingerprint
    low, high = told["interval"]
    assert low <= told["accuracy"] <= high
    (memory,) = told["memories"].values()
    assert set(memory) == {"documents", "tokens", "names", "bytes"}


def test_a_folder_without_a_reader(run: Run, stories: Path) -> None:
    ran = run("evaluate", "-d", stories, "--reader", stories)
    assert_one_line(ran, "config.json: expected a reader's file", "check the path")


@pytest.mark.parametrize(
    ("split", "part"),
    [("tests", "expected training or validation or test, got 'tests'"), ("training", "without any")],
)
def test_a_split_without_questions(
    run: Run, trained: tuple[Path, Ran], stories: Path, split: str, part: str
) -> None:
    assert_one_line(run("evaluate", "-d", stories, "--reader", trained[0], "--split", split), part)
