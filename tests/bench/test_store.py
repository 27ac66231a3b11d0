"""`attar bench store` with tiny sizes: every row right, the disk asked first, nothing left behind."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from attar.bench import store_filling, store_rows
from attar.bench.case import Goal, measure
from attar.bench.clocks import QUICK, WallClock
from attar.bench.store import Wanted, cases, run
from attar.bench.store_filling import Piles, Sizes
from attar.bench.store_reading import RoundedNetwork, accuracy_cases, beside_reading, kept
from attar.bench.store_rows import store_cases
from attar.cli.main import app
from attar.cloze.parquet import DocumentWriter
from attar.errors import OptionError
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.ops.packed.products import product_in_use
from attar.reader import Reader
from attar.store import Reading, Store
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import story_document, tell_stories

CLOCK = WallClock(QUICK)
TINY = Sizes(documents=12, tokens=30, size=8)


@pytest.fixture
def piles(tmp_path):
    with Piles(TINY, tmp_path, lambda done, total, what: None) as piles:
        yield piles


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory):
    """A reader whose network has learnt nothing."""
    words = Vocabulary.build((story.text for story in tell_stories(3, 9)), size=150, entities=40)
    torch.manual_seed(5)
    options = NetworkOptions(words=len(words), entities=40, mechanism="named", embedding=5, size=6)
    folder = tmp_path_factory.mktemp("reader")
    Reader(Network(options), words).save(folder)
    return folder


@pytest.fixture(scope="module")
def cloze_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    with DocumentWriter(folder / "test.parquet") as writer:
        for number, story in enumerate(tell_stories(1, 5)):
            writer.write(story_document(story, str(number)))
    return folder


@pytest.mark.parametrize("place", range(6))
def test_rows_on_made_up_memories_are_right(piles, place):
    row = measure(store_cases(piles, CLOCK, 5)[place])
    assert row.verdict in ("met", "missed"), row


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_rounded_memories_are_looked_up_right(tmp_path, dtype):
    with Piles(Sizes(12, 30, 8, dtype), tmp_path, lambda *_: None) as piles:
        row = measure(store_cases(piles, CLOCK, 5)[1])
    assert row.verdict in ("met", "missed"), row


def test_a_wrong_lookup_gets_no_timing(piles, monkeypatch):
    right = Reading.lookup
    monkeypatch.setattr(Reading, "lookup", lambda self, name, queries: 1.1 * right(self, name, queries))
    row = measure(store_cases(piles, CLOCK, 5)[1])
    assert (row.verdict, row.ours, row.ratio) == ("wrong", None, None)


def test_a_store_that_lost_documents_gets_no_timing(piles, monkeypatch):
    monkeypatch.setattr(Store, "__len__", lambda self: 11)
    case = next(case for case in store_cases(piles, CLOCK, 5) if case.what.startswith("opening"))
    assert measure(case).verdict == "wrong"


def test_full_rows_are_those_of_the_targets(tmp_path):
    with Piles(Sizes(), tmp_path, lambda *_: None) as piles:
        rows = store_cases(piles, CLOCK, 256)
    names = " ".join(f"{case.what} | {case.against} {case.goal}" for case in rows)
    wanted = (
        "k = 100",
        "n = 750",
        "≥ 10 ×",
        "12 µs",
        "256 lookups",
        "≥ 3 ×",
        "150,000",
        "≤ 0.0769 ×",
        "50 ms",
    )
    assert [words for words in wanted if words not in names] == []


def test_a_filled_store_is_sound_and_holds_what_it_says(piles):
    pile = piles.of("gated", 12, "float32")
    with Store.open(pile.folder) as store:
        assert len(store) == 12
        assert list(store.check()) == []
        found = [store.memory(pile.name(number)).lookup(pile.query)[0] for number in range(12)]
    np.testing.assert_allclose(np.stack(found), pile.expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_store_is_filled_once(piles, monkeypatch):
    first = piles.of("gated", 12, "float32")
    monkeypatch.setattr(store_filling, "fill", None)
    assert piles.of("gated", 12, "float32") is first


def test_filling_tells_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(store_filling, "AT_ONCE", 5)
    told = []
    with Piles(TINY, tmp_path, lambda *progress: told.append(progress)) as piles:
        piles.of("gated", 12, "float32")
    assert [done for done, _, _ in told] == [0, 5, 10]


def test_nothing_is_left_behind_even_by_a_failure(tmp_path):
    def fail(tmp_path):
        with Piles(TINY, tmp_path, lambda *_: None) as piles:
            piles.of("gated", 12, "float32")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_disk_is_asked_before_anything_is_written(tmp_path):
    with pytest.raises(
        OptionError, match=r"--place: expected .* GB free .* got .*; ask for fewer --documents"
    ):
        run(Wanted(10**9, place=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_estimate_of_the_space_is_not_too_low(tmp_path, monkeypatch):
    sizes = Sizes(documents=300, tokens=30, size=60)
    asked = []
    monkeypatch.setattr(store_filling, "quantity", lambda amount, unit: asked.append(amount) or "")
    monkeypatch.setattr(store_filling.shutil, "disk_usage", lambda place: type("Usage", (), {"free": -1}))
    with pytest.raises(OptionError):
        store_filling.refuse_full_disk(sizes, tmp_path)
    monkeypatch.undo()
    with Piles(sizes, tmp_path, lambda *_: None) as piles:
        made = [piles.of("gated", 300, "float32"), piles.of("softmax", 300, "float32")]
        taken = sum((pile.folder / store_rows.DATA).stat().st_size for pile in made)
    assert taken <= asked[0]


def test_another_dtype_is_refused():
    with pytest.raises(OptionError, match="--dtype"):
        Wanted(dtype="float8").sizes()


def test_adding_is_compared_with_reading(reader_folder, tmp_path):
    found = beside_reading(Goal(1.15, at_least=False), CLOCK, reader_folder, tmp_path, 2)
    assert found.against == "reading alone"
    with Store.open(tmp_path / "added") as store:
        assert len(store) >= 4
        assert store.get("document 0").text


def test_answers_from_rounded_memories_are_counted(reader_folder, cloze_set):
    rows = [measure(case) for case in accuracy_cases([cloze_set], reader_folder)]
    assert [row.verdict in ("met", "missed") for row in rows] == [True, True]
    assert "float32" in rows[1].note
    assert "int8" in rows[1].note


@pytest.mark.parametrize("mechanism", ["gated", "named", "keyed", "none", "softmax"])
def test_float32_memories_are_not_rounded(mechanism):
    shape = {"gated": (4, 4), "none": (4,)}.get(mechanism, (3, 4))
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    numbers = numbers @ numbers.T if mechanism == "gated" else numbers
    np.testing.assert_array_equal(kept(mechanism, numbers, 3, "float32"), numbers)


def test_a_rounded_network_shares_its_parameters(reader_folder):
    network = Reader.load(reader_folder).network
    rounded = RoundedNetwork.of(network, "int8")
    assert rounded.embedding.weight is network.embedding.weight


def test_synthetic_rows_need_no_reader(piles):
    rows, notes = cases(Wanted(synthetic=True, quick=True), piles)
    assert not any("adding" in row.what for row in rows)
    assert notes == []


def test_without_data_one_line_says_what_is_missing(piles):
    _, notes = cases(Wanted(quick=True), piles)
    assert ["--data" in note for note in notes] == [True]


def invoke(*arguments: str | Path):
    return CliRunner().invoke(app, ["bench", "store", "--quick", "--synthetic", *map(str, arguments)])


def test_the_command_prints_json(tmp_path):
    ran = invoke("--json", "--place", tmp_path)
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert len(report["rows"]) >= 6
    assert {row["verdict"] for row in report["rows"]} <= {"met", "missed"}
    assert list(tmp_path.iterdir()) == []


def test_the_product_that_was_used_is_named():
    assert product_in_use() in invoke("--only", "opening").stdout


def test_only_keeps_the_rows_that_hold_the_text():
    report = json.loads(invoke("--json", "--only", "BYTES a document").stdout)
    assert [row["what"] for row in report["rows"]] == ["bytes a document, float16, k = 20"]


def test_the_table_is_markdown_in_a_pipe():
    assert any(
        line.startswith("| opening a store of") for line in invoke("--only", "opening").stdout.split("\n")
    )
