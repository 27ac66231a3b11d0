"""`attar paper …`: what the commands print, and one line per mistake."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from attar import ops
from attar.paper.network import load_network
from benchmarks.stories import tell_stories

from .conftest import Ran, assert_one_line, run_here

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
SMALL = ("--hidden-size", 4, "--embedding-size", 4, "--epochs", 1, "--batch-size", 8, "--questions", 2)
QUICK = ("--quick", "--size", 8, "--device", "cpu")


def paper(*arguments: object) -> Ran:
    return run_here("paper", *arguments)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    stories = [story.text for story in tell_stories(3, 36)]
    for number in range(6):
        (folder / f"{number}.txt").write_text("\n\n".join(stories[number * 6 : number * 6 + 6]))
    return folder


@pytest.fixture(scope="module")
def built(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A set, and the output of `attar paper build`."""
    out = tmp_path_factory.mktemp("built") / "set"
    return out, paper("build", texts, "--out", out, "--window", 150, "--entities", 20)


@pytest.fixture(scope="module")
def trained(built: tuple[Path, Ran], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A network, and the output of `attar paper train`."""
    out = tmp_path_factory.mktemp("trained") / "network"
    return out, paper("train", "-d", built[0], "-o", out, *SMALL)


def test_build_prints_the_splits(built: tuple[Path, Ran], texts: Path) -> None:
    folder, ran = built
    assert ran.returncode == 0, ran.stderr
    names = [line.partition(":")[0] for line in ran.stdout.splitlines()]
    assert names == ["training", "validation", "test"]
    assert_one_line(paper("build", texts, "--out", folder), "set.json", "add --replace")
    told = json.loads(paper("build", texts, "--out", folder.parent / "other", "--json").stdout)
    assert sum(split["sources"] for split in told["splits"].values()) == 6


def test_train_prints_a_line_per_epoch_and_the_best(trained: tuple[Path, Ran]) -> None:
    folder, ran = trained
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("epoch 1 of 1: loss ")
    assert ran.stdout.startswith(f"{folder}: validation accuracy 0.")
    assert load_network(folder).network.options.hidden_size == 4


def test_train_resumes_with_the_same_options_only(built: tuple[Path, Ran], trained: tuple[Path, Ran]) -> None:
    given = ("train", "-d", built[0], "-o", trained[0], *SMALL)
    assert_one_line(paper(*given), "config.json", "add --resume or --replace")
    told = json.loads(paper(*given, "--resume", "--json").stdout)
    assert told["best"] == told["history"][0]
    assert_one_line(paper(*given, "--resume", "--seed", 5), "expected seed 0, got 5", "without --resume")
    assert_one_line(paper(*given, "--resume", "--replace"), "exclude each other")


def test_evaluate_prints_the_network_and_the_baselines(
    built: tuple[Path, Ran], trained: tuple[Path, Ran]
) -> None:
    ran = paper("evaluate", trained[0], "-d", built[0])
    title, *rows = ran.stdout.splitlines()
    assert title.startswith("test: ")
    names = [row.rsplit(None, 3)[0] for row in rows]
    assert names == ["network", "most frequent name", "most frequent name not in the question"]
    told = json.loads(paper("evaluate", trained[0], "-d", built[0], "--split", "validation", "--json").stdout)
    assert told["split"] == "validation"
    assert told["low"] <= told["accuracy"] <= told["high"]


@pytest.mark.slow
def test_compare_prints_a_line_per_epoch_and_a_table(built: tuple[Path, Ran], tmp_path: Path) -> None:
    given = ("compare", "-d", built[0], "-o", tmp_path, "--mechanisms", "none", "--seeds", 1, *SMALL)
    ran = paper(*given)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("none, seed 0: epoch 1 of 1: loss ")
    rows = [line.split("|")[2].strip() for line in ran.stdout.splitlines()[2:]]
    assert rows == ["none", "most frequent name", "most frequent name not in the question"]
    assert json.loads(paper(*given, "--json").stdout) == json.loads((tmp_path / "report.json").read_text())
    assert_one_line(paper(*given, "--lr", 1), "has the result of other options: lr 0.004", "another --out")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (lambda place: ("train", "-d", place, "-o", place / "out"), "has neither training.parquet"),
        (lambda place: ("train", "-d", place / "none", "-o", place / "out"), "there is no folder"),
        (lambda place: ("train", "-d", place, "-o", "out", "--lr", "nan"), "lr: expected a finite number"),
        (lambda place: ("train", "-d", place, "-o", "out", "--mechanism", "magic"), "got 'magic'"),
        (
            lambda place: ("compare", "-d", place, "-o", place, "--mechanisms", ""),
            "mechanisms: expected at least",
        ),
        (lambda place: ("compare", "-d", place, "-o", place, "--mechanisms", "none,none"), "more than once"),
        (lambda place: ("compare", "-o", place), "give --data, or --minutes 10"),
        (lambda place: ("compare", "-o", place, "-d", place, "--minutes", 1), "give --data, or --minutes 10"),
        (lambda place: ("recall", "-o", place, "--sizes", "x"), "sizes: expected whole numbers"),
        (lambda place: ("evaluate", place, "-d", place), "is not a network's folder"),
        (lambda place: ("build", place / "none", "-o", place / "set"), "none does not exist"),
        (lambda place: ("table1", "--plot", place / "a.txt"), "--plot: expected a file that ends with .png"),
    ],
    ids=[
        "no set",
        "no folder",
        "nan",
        "a mechanism",
        "no mechanism",
        "twice",
        "no set and no time",
        "set and time",
        "sizes",
        "no network",
        "no text",
        "a plot",
    ],
)
def test_a_mistake_is_one_line(arguments: Callable[[Path], tuple], part: str, tmp_path: Path) -> None:
    assert_one_line(paper(*arguments(tmp_path)), part)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("bench",), ("paper", "table1")], ids=" ".join)
def test_table1_is_printed_as_json_and_drawn(command: tuple[str, ...], tmp_path: Path) -> None:
    ran = run_here(*command, *QUICK, "--json", "--plot", tmp_path / "table1.svg")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["k"] == 8
    assert (tmp_path / "table1.svg").exists()


def test_a_wrong_result_of_table1_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops.packed_lookup
    monkeypatch.setattr(ops, "packed_lookup", lambda packed, query: 2 * right(packed, query))
    assert_one_line(paper("table1", *QUICK), "linear is off by")
