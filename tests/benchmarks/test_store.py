"""The store benchmark at tiny sizes: every row is right, disk space is checked first, nothing is left behind."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

from attar.bench.cost import QUICK, Timer
from attar.cloze.documents import DocumentWriter
from attar.errors import OptionError
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.ops.packed.products import product_in_use
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from attar.store.store import Store
from attar.store.transactions import Snapshot
from attar.text.vocabulary import Vocabulary
from benchmarks import filled_stores
from benchmarks.comparison import measure
from benchmarks.filled_stores import FilledStores, Sizes
from benchmarks.store import Options, all_cases, main, run, store_cases
from benchmarks.store_reader import RoundedNetwork, accuracy_cases, adding_vs_reading, round_memory
from benchmarks.stories import story_document, tell_stories

pytestmark = pytest.mark.slow  # whole benchmarks with the default reader

TIMER = Timer(QUICK)
TINY = Sizes(documents=12, tokens=30, size=8)


@pytest.fixture
def stores(tmp_path):
    with FilledStores(TINY, tmp_path, lambda what, done, total: None) as stores:
        yield stores


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory):
    """A reader whose network has learnt nothing."""
    words = Vocabulary.build((story.text for story in tell_stories(3, 9)), size=150, entities=40)
    torch.manual_seed(5)
    options = NetworkOptions(
        words=len(words), entities=40, mechanism="named", embedding_size=5, hidden_size=6
    )
    folder = tmp_path_factory.mktemp("reader")
    NamesReader(Network(options), words).save(folder)
    return folder


@pytest.fixture(scope="module")
def cloze_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    with DocumentWriter(folder / "test.parquet") as writer:
        for number, story in enumerate(tell_stories(1, 5)):
            writer.write(story_document(story, str(number)))
    return folder


@pytest.mark.parametrize("place", range(6))
def test_rows_on_random_memories_are_right(stores, place):
    row = measure(store_cases(stores, TIMER, 5)[place])
    assert row.verdict == ("met" if row.goal.reached(row.ratio) else "missed"), row
    assert row.ours > 0
    assert row.theirs > 0


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_lookups_in_rounded_memories_are_checked(tmp_path, dtype, monkeypatch):
    """Rounding is accepted, a readout that is a tenth too large is not."""
    with FilledStores(Sizes(12, 30, 8, dtype), tmp_path, lambda *_: None) as stores:
        row = measure(store_cases(stores, TIMER, 5)[1])
        right = Snapshot.lookup
        monkeypatch.setattr(Snapshot, "lookup", lambda self, name, queries: 1.1 * right(self, name, queries))
        wrong = measure(store_cases(stores, TIMER, 5)[1])
    assert row.verdict == ("met" if row.goal.reached(row.ratio) else "missed"), row
    assert (row.ours > 0, row.theirs > 0) == (True, True)
    assert (wrong.verdict, wrong.ours) == ("wrong", None)


def test_a_wrong_lookup_gets_no_timing(stores, monkeypatch):
    right = Snapshot.lookup
    monkeypatch.setattr(Snapshot, "lookup", lambda self, name, queries: 1.1 * right(self, name, queries))
    row = measure(store_cases(stores, TIMER, 5)[1])
    assert (row.verdict, row.ours, row.ratio) == ("wrong", None, None)


def test_a_store_that_lost_documents_gets_no_timing(stores, monkeypatch):
    monkeypatch.setattr(Store, "__len__", lambda self: 11)
    case = next(case for case in store_cases(stores, TIMER, 5) if case.what.startswith("opening"))
    assert measure(case).verdict == "wrong"


def test_full_rows_have_the_documented_targets(tmp_path):
    with FilledStores(Sizes(), tmp_path, lambda *_: None) as stores:
        rows = store_cases(stores, TIMER, 256)
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


def test_a_filled_store_passes_its_check_and_has_the_expected_readouts(stores):
    filled = stores.get("gated", 12, "float32")
    with Store.open(filled.folder) as store:
        assert len(store) == 12
        assert list(store.check()) == []
        found = [store.memory(filled.name(number)).lookup(filled.query)[0] for number in range(12)]
    np.testing.assert_allclose(np.stack(found), filled.expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_store_is_filled_once(stores, monkeypatch):
    first = stores.get("gated", 12, "float32")
    monkeypatch.setattr(filled_stores, "fill", None)
    assert stores.get("gated", 12, "float32") is first


def test_filling_reports_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(filled_stores, "BATCH", 5)
    reported = []
    with FilledStores(TINY, tmp_path, lambda *progress: reported.append(progress)) as stores:
        stores.get("gated", 12, "float32")
    assert [done for _, done, _ in reported] == [0, 5, 10]


def test_stores_are_deleted_after_a_failure(tmp_path):
    def fail(tmp_path):
        with FilledStores(TINY, tmp_path, lambda *_: None) as stores:
            stores.get("gated", 12, "float32")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_too_little_disk_space_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(OptionError, match=r"--place: expected .* GB free .* got .*; use fewer --documents"):
        run(Options(10**9, place=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_estimated_disk_space_is_enough(tmp_path, monkeypatch):
    sizes = Sizes(documents=300, tokens=30, size=60)
    asked = []
    monkeypatch.setattr(filled_stores, "quantity", lambda amount, unit: asked.append(amount) or "")
    monkeypatch.setattr(filled_stores.shutil, "disk_usage", lambda place: type("Usage", (), {"free": -1}))
    with pytest.raises(OptionError):
        filled_stores.check_disk_space(sizes, tmp_path)
    monkeypatch.undo()
    with FilledStores(sizes, tmp_path, lambda *_: None) as stores:
        made = [stores.get("gated", 300, "float32"), stores.get("softmax", 300, "float32")]
        taken = sum(filled_stores.file_size(filled.folder) for filled in made)
    assert taken <= asked[0]


def test_another_dtype_is_refused():
    with pytest.raises(OptionError, match="--dtype"):
        Options(dtype="float8").sizes()


def test_adding_is_compared_with_reading(reader_folder, tmp_path):
    found = adding_vs_reading(TIMER, reader_folder, tmp_path, 2)
    assert found.against == "reading alone"
    with Store.open(tmp_path / "added") as store:
        assert len(store) >= 4
        assert store.get("document 0").text


def test_the_accuracy_of_rounded_memories_is_measured(reader_folder, cloze_set):
    rows = [measure(case) for case in accuracy_cases([cloze_set], reader_folder)]
    for row, dtype in zip(rows, ("float16", "int8"), strict=True):
        assert row.verdict == ("met" if row.ours >= row.theirs else "missed"), row
        assert re.match(rf"{dtype} [\d.]+ %, float32 [\d.]+ % of \d+ questions", row.note)


@pytest.mark.parametrize("mechanism", ["gated", "named", "keyed", "none", "softmax"])
def test_float32_memories_are_not_rounded(mechanism):
    shape = {"gated": (4, 4), "none": (4,)}.get(mechanism, (3, 4))
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    numbers = numbers @ numbers.T if mechanism == "gated" else numbers
    np.testing.assert_array_equal(round_memory(mechanism, numbers, 3, "float32"), numbers)


def test_a_rounded_network_shares_its_parameters(reader_folder):
    network = Reader.load(reader_folder).network
    rounded = RoundedNetwork.of(network, "int8")
    assert rounded.embedding.weight is network.embedding.weight


def test_synthetic_rows_need_no_reader(stores):
    rows, notes = all_cases(Options(synthetic=True, quick=True), stores)
    assert not any("adding" in row.what for row in rows)
    assert notes == []


def test_without_data_a_note_says_what_is_missing(stores):
    _, notes = all_cases(Options(quick=True), stores)
    assert ["--data" in note for note in notes] == [True]


def invoke(*arguments: str | Path):
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, ["--quick", "--synthetic", *map(str, arguments)])


def test_the_command_prints_json(tmp_path):
    ran = invoke("--json", "--place", tmp_path)
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert len(report["rows"]) >= 6
    assert {row["verdict"] for row in report["rows"]} == {"not judged"}, report["rows"]
    assert list(tmp_path.iterdir()) == []


def test_the_product_in_use_is_named():
    assert product_in_use() in invoke("--only", "opening").stdout


def test_only_keeps_the_rows_that_hold_the_text():
    report = json.loads(invoke("--json", "--only", "BYTES per document").stdout)
    assert [row["what"] for row in report["rows"]] == ["bytes per document, float16, k = 20"]


def test_the_table_is_markdown_in_a_pipe():
    assert any(
        line.startswith("| opening a store of") for line in invoke("--only", "opening").stdout.split("\n")
    )
