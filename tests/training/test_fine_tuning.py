"""Fine-tuning starts from a reader: its weights and its vocabulary, and the options that it fixes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attar.errors import FormatError, OptionError
from attar.reader.files import load_reader
from attar.reader.folders import SHIPPED
from attar.training.data import TrainingData, load_initial
from attar.training.fit import fine_tuning_options, initial_network, train
from attar.training.options import TrainingOptions

from .conftest import MakeSet

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked_shapes")]


@pytest.fixture(scope="module")
def start(make_set: MakeSet, tmp_path_factory: pytest.TempPathFactory) -> TrainingOptions:
    """The options of a small reader that was trained."""
    out = tmp_path_factory.mktemp("start") / "reader"
    options = TrainingOptions(
        (str(make_set()),), str(out), hidden_size=8, embedding_size=8, epochs=1, batch_size=16
    )
    train(options, quiet=True)
    return options


def fine_tuned(start: TrainingOptions, out: Path, **changed: object) -> TrainingOptions:
    given = start.to_json() | {"out": str(out), "start": start.out} | changed
    return TrainingOptions.from_json(given)


def test_fine_tuning_begins_with_the_readers_weights(start: TrainingOptions, tmp_path: Path) -> None:
    saved = load_reader(start.out)
    network = initial_network(fine_tuned(start, tmp_path), saved.vocabulary)
    for name, value in saved.network.state_dict().items():
        assert torch.equal(network.state_dict()[name], value), name


@pytest.mark.parametrize("encoder", ["gru", "lookahead"])
def test_shared_init_copies_the_document_encoder(
    start: TrainingOptions, tmp_path: Path, encoder: str
) -> None:
    vocabulary = load_reader(start.out).vocabulary
    plain = TrainingOptions(start.data, str(tmp_path), hidden_size=8, embedding_size=8, encoder=encoder)
    for options, same in ((plain, False), (replace(plain, shared_init=True), True)):
        network = initial_network(options, vocabulary)
        weights = [
            each.forward_gru.weight_hh_l0 for each in (network.document_encoder, network.question_encoder)
        ]
        assert torch.equal(*weights) is same
        assert weights[0] is not weights[1]


def test_a_reader_fixes_how_directions_are_joined(make_set: MakeSet, tmp_path: Path) -> None:
    first = TrainingOptions(
        (str(make_set()),),
        str(tmp_path / "first"),
        hidden_size=4,
        embedding_size=4,
        epochs=1,
        encoder="lookahead",
        join="sum",
        head_size=6,
    )
    train(first, quiet=True)
    given = vars(TrainingOptions(first.data, str(tmp_path), init_from=first.out))
    own = fine_tuning_options(given, explicit=())
    assert (own.join, own.head_size, own.hidden_size) == ("sum", 6, 4)
    with pytest.raises(OptionError, match="expected join 'sum', got 'halves'; omit what the reader fixes"):
        initial_network(fine_tuned(first, tmp_path, join="halves"), load_reader(first.out).vocabulary)


def test_shared_init_is_refused_for_fine_tuning(start: TrainingOptions, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="shared_init: expected a new network, got init_from"):
        fine_tuned(start, tmp_path, alike=True)


def test_dropout_may_differ_from_the_readers(start: TrainingOptions, tmp_path: Path) -> None:
    network = initial_network(fine_tuned(start, tmp_path, dropout=0.3), load_reader(start.out).vocabulary)
    assert network.dropout.p == 0.3


def test_fine_tuning_uses_the_readers_vocabulary(
    start: TrainingOptions, make_set: MakeSet, tmp_path: Path
) -> None:
    other = make_set(seed=7, vocabulary=False)
    data = TrainingData(fine_tuned(start, tmp_path, data=(str(other),)))
    assert data.vocabulary.fingerprint == load_reader(start.out).vocabulary.fingerprint


def test_fine_tuning_writes_another_reader(start: TrainingOptions, tmp_path: Path) -> None:
    before = load_reader(start.out)
    after = load_reader(train(fine_tuned(start, tmp_path / "on"), quiet=True))
    assert after.fingerprint != before.fingerprint
    assert after.about["training"]["start"] == "reader"
    assert after.about["before"] == before.about
    assert load_reader(start.out).fingerprint == before.fingerprint


def test_a_reader_of_another_size_is_refused(start: TrainingOptions, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected hidden_size 8, got 16; omit what the reader fixes"):
        initial_network(fine_tuned(start, tmp_path, size=16), load_reader(start.out).vocabulary)


def test_the_reader_in_the_package_is_called_default() -> None:
    assert load_initial("default").fingerprint == load_reader(SHIPPED / "names").fingerprint


def test_a_folder_without_a_reader_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json"):
        fine_tuning_options({"init_from": str(tmp_path)}, explicit=())


def test_freeze_trains_only_the_added_parameters(make_set: MakeSet, tmp_path: Path) -> None:
    data = (str(make_set()),)
    first = TrainingOptions(
        data, str(tmp_path / "first"), mechanism="named", hidden_size=4, embedding_size=4, epochs=1
    )
    before = load_reader(train(first, quiet=True)).network.state_dict()
    changed = {"company": True, "frozen": True, "rate": 0.1}
    after = load_reader(
        train(fine_tuned(first, tmp_path / "more", **changed), quiet=True)
    ).network.state_dict()
    added = set(after) - set(before)
    assert added
    for name, value in before.items():
        assert torch.equal(after[name], value), name
