"""Figures that two pages state are the same, and those of everyday documents are what the shipped reader gives."""

import json
import re
from pathlib import Path

import pytest

from attar.cli.main import main
from benchmarks.scale import price_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
PAGES = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}


@pytest.mark.parametrize(
    ("row", "beginning"),
    [("SQuAD 2.0 dev", "**default reader, one"), ("80 questions", "**default reader**")],
    ids=["SQuAD", "everyday"],
)
def test_the_readme_says_how_often_it_is_right_as_the_results_do(row, beginning):
    (claimed,) = (line for line in README.splitlines() if line.startswith(f"| {row}"))
    (measured,) = (line for line in RESULTS.splitlines() if line.startswith(f"| {beginning}"))
    assert len(re.findall(r"\| (\.\d+)", claimed)) == 3
    assert re.findall(r"\| (\.\d+)", claimed) == re.findall(r"\*\*(\.\d+)\*\*", measured)


def test_the_readme_says_what_is_declined_as_the_results_do():
    squad, everyday = re.search(r"declines (\d+) % \(SQuAD\) and (\d+) % \(everyday\)", README).groups()
    assert round(
        float(re.search(r"refuses ([\d.]+) % of the questions of other articles", RESULTS)[1])
    ) == int(squad)
    assert (
        re.search(r"(\d+) % of the questions about the other documents are refused", RESULTS)[1] == everyday
    )


def test_prices_are_those_that_the_command_computes():
    assert price_table() in PAGES[ROOT / "docs" / "scale.md"]


@pytest.mark.slow
def test_the_shipped_reader_is_as_often_right_on_everyday_documents_as_the_results_say(monkeypatch, capsys):
    command = ["attar", "evaluate-questions", str(ROOT / "benchmarks/questions/everyday.json"), "--json"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit, match="0"):
        main()
    (reader,) = (row for row in json.loads(capsys.readouterr().out)["rows"] if row["name"].endswith("look 3"))
    scores = reader["scores"]
    (row,) = (line for line in RESULTS.splitlines() if line.startswith("| **default reader**"))
    claimed = [float(figure) for figure in re.findall(r"\*\*(\.\d+)\*\*", row)]
    assert [scores["em"], scores["f1"], scores["sentence"]] == pytest.approx(claimed, abs=0.001)
    declined = re.search(r"(\d+) % of the questions about the other documents are refused", RESULTS)[1]
    assert scores["refused_other"] == pytest.approx(int(declined) / 100, abs=0.005)
