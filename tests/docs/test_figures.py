"""Figures that two pages state are the same, and every picture says which command makes it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
READER = (ROOT / "docs" / "reader.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
# Pages that say how things were.
HISTORY = {"decisions", "log", "changelog"}
PAGES = {page: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
# Which command makes a picture; the page that shows it names the command. Drawings show no measurement but the
# one of cost.svg, which is a table of the demo.
MAKERS = {
    "page.png": "make screenshot",
    "question-budgets.png": "python -m benchmarks.question_budgets",
    "table1.png": "attar bench --plot table1.png",
    "table1-gpu.png": "attar bench --device cuda --plot table1-gpu.png",
    "compare-forward.png": "attar compare --data both --out forward",
    "compare-lookahead.png": "attar compare --data both --out lookahead",
    "compare-whole.png": "attar compare --data both --out whole",
    "cost.svg": "make demo",
}
DRAWINGS = {"algebra.svg", "memory.svg", "signature.svg"}


def bold_row(beginning: str) -> list[str]:
    """The bold numbers of a row of the page of readers."""
    (row,) = (line for line in READER.splitlines() if line.startswith(f"| **{beginning}"))
    return re.findall(r"\*\*(\.\d+)\*\*", row)


@pytest.mark.parametrize(
    ("row", "beginning"), [("SQuAD 2.0 dev", "the files that ship"), ("80 questions", "reader")]
)
def test_the_readme_says_how_often_it_is_right_as_the_page_of_readers_does(row, beginning):
    (line,) = (line for line in README.splitlines() if line.startswith(f"| {row}"))
    shown = re.findall(r"\| (\.\d+)", line)
    assert len(shown) == 3
    assert shown == bold_row(beginning)


def test_the_readme_says_how_often_the_accurate_reader_is_right_as_the_page_of_readers_does():
    exact, f1, _ = bold_row("`--reader accurate`")
    assert f"is right more often: {exact} and F1 {f1} on SQuAD" in README


def test_the_readme_says_what_is_refused_as_the_page_of_readers_does():
    squad, everyday = re.search(r"it refuses (\d+) % \(SQuAD\) and (\d+) % \(everyday\)", README).groups()
    assert round(
        float(re.search(r"([\d.]+) % of the questions of other articles are refused", READER)[1])
    ) == int(squad)
    assert re.search(r"questions about the other documents (\d+) % are refused", READER)[1] == everyday


@pytest.mark.parametrize(
    ("pattern", "size", "pages"),
    [
        (r"(\d+) (?:bytes )?per character", "7", ["README", "reader", "reading", "operations"]),
        (
            r"(?<!bound: )\b(\d+) kB (?:for a|per) paragraph",
            "6",
            ["README", "reader", "operations", "coming-from"],
        ),
        (r"(\d+) kB for a page", "12", ["reader", "operations"]),
    ],
    ids=["character", "paragraph", "page"],
)
def test_sizes_of_memories_are_the_same_on_all_pages(pattern, size, pages):
    stated = {page.stem: found for page, text in PAGES.items() if (found := set(re.findall(pattern, text)))}
    stated = {page: found for page, found in stated.items() if page not in HISTORY}
    assert set(pages) <= set(stated)
    assert stated == {page: {size} for page in stated}


def test_right_answers_by_precision_are_those_of_the_measurements():
    shares = dict(
        re.findall(r"right answers from (float16|int8) memories, named reader: \w+ ([\d.]+) %", BENCHMARKS)
    )
    single = re.search(r"int8 memories, named reader: int8 [\d.]+ %, float32 ([\d.]+) %", BENCHMARKS)[1]
    line = (
        f"float32, float16 and int8 answered {single}, {shares['float16']} and {shares['int8']} % correctly"
    )
    assert line in (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")


def test_the_caption_of_budgets_is_what_the_table_says():
    rows = dict(re.findall(r"^\| phrases \| ([\d,]+|none) \|.*\| (\.\d+) \| \.\d+ \|$", RESULTS, re.M))
    assert "3,000 bytes per paragraph cost under two points" in README
    assert 0 <= float(rows["none"]) - float(rows["3,000"]) < 0.02


def test_every_picture_is_shown_and_says_how_it_is_made():
    pictures = {file.name for file in (ROOT / "docs" / "figures").iterdir()}
    assert pictures == set(MAKERS) | DRAWINGS
    for picture, command in MAKERS.items():
        showing = [text for text in PAGES.values() if f"figures/{picture}" in text]
        assert showing, f"no page shows {picture}"
        assert any(command in text for text in showing), f"no page that shows {picture} says {command}"
