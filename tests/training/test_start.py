"""A run may begin with a reader: its network, its words, its numbers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attar.errors import FormatError, OptionError
from attar.reader import DEFAULT, load_reader
from attar.training.fit import train
from attar.training.options import TrainingOptions
from attar.training.sets import Sets
from attar.training.start import first_network, settled_by

from .conftest import MakeSet

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(scope="module")
def start(make_set: MakeSet, tmp_path_factory: pytest.TempPathFactory) -> TrainingOptions:
    """The options of a small reader that was trained."""
    out = tmp_path_factory.mktemp("start") / "reader"
    options = TrainingOptions((str(make_set()),), str(out), size=8, embedding=8, epochs=1, batch=16)
    train(options, quiet=True)
    return options


def going_on(start: TrainingOptions, out: Path, **changed: object) -> TrainingOptions:
    given = start.to_json() | {"out": str(out), "start": start.out} | changed
    return TrainingOptions.from_json(given)


def test_begins_with_the_readers_numbers(start: TrainingOptions, tmp_path: Path) -> None:
    saved = load_reader(start.out)
    network = first_network(going_on(start, tmp_path), saved.vocabulary)
    for name, value in saved.network.state_dict().items():
        assert torch.equal(network.state_dict()[name], value), name


@pytest.mark.parametrize("encoder", ["gru", "lookahead"])
def test_encoders_start_alike_and_grow_apart_if_asked(
    start: TrainingOptions, tmp_path: Path, encoder: str
) -> None:
    vocabulary = load_reader(start.out).vocabulary
    plain = TrainingOptions(start.data, str(tmp_path), size=8, embedding=8, encoder=encoder)
    for options, same in ((plain, False), (replace(plain, alike=True), True)):
        network = first_network(options, vocabulary)
        weights = [each.onward.weight_hh_l0 for each in (network.document_encoder, network.question_encoder)]
        assert torch.equal(*weights) is same
        assert weights[0] is not weights[1]


def test_a_reader_settles_how_both_ways_are_joined(make_set: MakeSet, tmp_path: Path) -> None:
    first = TrainingOptions(
        (str(make_set()),),
        str(tmp_path / "first"),
        size=4,
        embedding=4,
        epochs=1,
        encoder="lookahead",
        join="sum",
        head_size=6,
    )
    train(first, quiet=True)
    settled = settled_by(first.out)
    assert (settled["join"], settled["head_size"]) == ("sum", 6)
    with pytest.raises(
        OptionError, match="expected join 'sum', got 'halves'; leave out what the reader settles"
    ):
        first_network(going_on(first, tmp_path, join="halves"), load_reader(first.out).vocabulary)


def test_a_reader_that_is_trained_on_starts_as_it_is(start: TrainingOptions, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="alike: expected a run from the start, got a reader to train on"):
        going_on(start, tmp_path, alike=True)


def test_another_dropout_is_the_trainers_own(start: TrainingOptions, tmp_path: Path) -> None:
    network = first_network(going_on(start, tmp_path, dropout=0.3), load_reader(start.out).vocabulary)
    assert network.dropout.p == 0.3


def test_reads_other_sets_in_the_readers_words(
    start: TrainingOptions, make_set: MakeSet, tmp_path: Path
) -> None:
    other = make_set(seed=7, vocabulary=False)
    sets = Sets(going_on(start, tmp_path, data=(str(other),)))
    assert sets.vocabulary.fingerprint == load_reader(start.out).vocabulary.fingerprint


def test_training_on_writes_another_reader(start: TrainingOptions, tmp_path: Path) -> None:
    before = load_reader(start.out)
    after = load_reader(train(going_on(start, tmp_path / "on"), quiet=True))
    assert after.fingerprint != before.fingerprint
    assert after.about["training"]["start"] == "reader"
    assert after.about["before"] == before.about
    assert load_reader(start.out).fingerprint == before.fingerprint


def test_a_reader_of_another_size_is_refused(start: TrainingOptions, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected size 8, got 16; leave out what the reader settles"):
        first_network(going_on(start, tmp_path, size=16), load_reader(start.out).vocabulary)


def test_the_reader_in_the_package_is_called_default() -> None:
    assert settled_by("default")["mechanism"] == load_reader(DEFAULT).network.options.mechanism


def test_a_folder_that_is_no_reader(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json"):
        settled_by(str(tmp_path))
