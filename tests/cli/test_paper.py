"""`attar paper …`: what the commands print, and one line per mistake."""

import json
from pathlib import Path

import pytest

from attar.paper.network import load_network

from .conftest import TINY_NETWORK, Cloze, Ran, assert_one_line, run_attar

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
QUICK = ("--quick", "--size", 8, "--device", "cpu")


def paper(*arguments: object) -> Ran:
    return run_attar("paper", *arguments)


def test_build_prints_the_splits(cloze: Cloze, tmp_path: Path) -> None:
    assert cloze.built.code == 0, cloze.built.errors
    assert [line.partition(":")[0] for line in cloze.built.lines] == ["training", "validation", "test"]
    assert_one_line(paper("build", cloze.texts, "--out", cloze.set), "set.json", "add --replace")
    told = json.loads(paper("build", cloze.texts, "--out", tmp_path / "other", "--json").lines[0])
    assert sum(split["sources"] for split in told["splits"].values()) == 6


def test_train_prints_a_line_per_epoch_and_the_best(cloze: Cloze) -> None:
    assert cloze.trained.code == 0, cloze.trained.errors
    assert cloze.trained.errors[0].startswith("epoch 1 of 1: loss ")
    assert cloze.trained.lines[0].startswith(f"{cloze.network}: validation accuracy 0.")
    assert load_network(cloze.network).network.options.hidden_size == 4


def test_train_resumes_with_the_same_options_only(cloze: Cloze) -> None:
    given = ("train", "-d", cloze.set, "-o", cloze.network, *TINY_NETWORK)
    assert_one_line(paper(*given), "config.json", "add --resume or --replace")
    told = json.loads(paper(*given, "--resume", "--json").lines[0])
    assert told["best"] == told["history"][0]
    assert_one_line(paper(*given, "--resume", "--seed", 5), "expected seed 0, got 5", "without --resume")
    assert_one_line(paper(*given, "--resume", "--replace"), "exclude each other")


def test_evaluate_prints_the_network_and_the_baselines(cloze: Cloze) -> None:
    given = ("evaluate", cloze.network, "-d", cloze.set)
    title, *rows = paper(*given).lines
    assert title.startswith("test: ")
    names = [row.rsplit(None, 3)[0] for row in rows]
    assert names == ["network", "most frequent name", "most frequent name not in the question"]
    told = json.loads(paper(*given, "--split", "validation", "--json").lines[0])
    assert told["split"] == "validation"
    score = told["scores"]["all"]["network"]
    assert score["low"] <= score["accuracy"] <= score["high"]


@pytest.mark.slow
def test_compare_prints_a_line_per_epoch_and_a_table(cloze: Cloze, tmp_path: Path) -> None:
    given = ("compare", "-d", cloze.set, "-o", tmp_path, "--mechanisms", "none", "--seeds", 1, *TINY_NETWORK)
    ran = paper(*given)
    assert ran.code == 0, ran.errors
    assert ran.errors[0].startswith("none, seed 0: epoch 1 of 1: loss ")
    rows = [line.split("|")[2].strip() for line in ran.lines[2:]]
    assert rows == ["none", "most frequent name", "most frequent name not in the question"]
    assert json.loads(paper(*given, "--json").lines[0]) == json.loads((tmp_path / "report.json").read_text())
    assert_one_line(paper(*given, "--lr", 1), "has the result of other options: lr 0.004", "another --out")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("train -d . -o out", "has neither training.parquet"),
        ("train -d none -o out", "there is no folder"),
        ("train -d . -o out --lr nan", "lr: expected a finite number"),
        ("train -d . -o out --mechanism magic", "got 'magic'"),
        ("compare -d . -o out --mechanisms ,", "mechanisms: expected at least"),
        ("compare -d . -o out --mechanisms none,none", "more than once"),
        ("compare -o out", "give --data, or --minutes 10"),
        ("compare -o out -d . --minutes 1", "give --data, or --minutes 10"),
        ("recall -o out --sizes x", "sizes: expected whole numbers"),
        ("evaluate . -d .", "is not a network's folder"),
        ("build none -o set", "none does not exist"),
        ("table1 --plot a.txt", "--plot: expected a file that ends with .png"),
    ],
)
def test_a_mistake_is_one_line(
    words: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(paper(*words.split()), part)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("bench",), ("paper", "table1")], ids=" ".join)
def test_table1_is_printed_as_json_and_drawn(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = run_attar(*command, *QUICK, "--json", "--plot", tmp_path / "table1.svg")
    assert ran.code == 0, ran.errors
    assert json.loads(ran.lines[0])["k"] == 8
    assert (tmp_path / "table1.svg").exists()
