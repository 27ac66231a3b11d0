"""Options are checked when they are made, and go through JSON unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from attar.errors import OptionError
from attar.text.vocabulary import Vocabulary
from attar.training.options import TrainingOptions, network_options


def options(**given: Any) -> TrainingOptions:
    return TrainingOptions(**{"data": ("sets/news",), "out": "reader"} | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": ()}, "data: expected at least one cloze set's folder, got none"),
        ({"epochs": 0}, "epochs: expected 1 or more, got 0"),
        ({"batch_size": 0}, "batch_size: expected 1 or more, got 0"),
        ({"hidden_size": 0}, "hidden_size: expected 1 or more, got 0"),
        ({"patience": -1}, "patience: expected 0 or more, got -1"),
        ({"grad_clip": -1.0}, "grad_clip: expected 0 or more, got -1.0"),
        ({"grad_clip": float("nan")}, "grad_clip: expected a finite number, got nan"),
        ({"grad_clip": float("inf")}, "grad_clip: expected a finite number, got inf"),
        ({"lr": float("inf")}, "lr: expected a finite number, got inf"),
        ({"warmup": float("nan")}, "warmup: expected a finite number, got nan"),
        ({"dropout": float("nan")}, "dropout: expected a finite number, got nan"),
        ({"seed": 2**32}, "seed: expected 4294967295 or less, got 4294967296"),
        ({"warmup": 1.5}, "warmup: expected 1 or less, got 1.5"),
        ({"num_workers": -2}, "num_workers: expected -1 or more, got -2"),
        ({"lr": 0.0}, "lr: expected a number above 0, got 0.0"),
        ({"lr": float("nan")}, "lr: expected a finite number, got nan"),
        ({"precision": "8"}, "precision: expected 32 or bf16-mixed or 16-mixed, got '8'"),
        ({"scale": "cube"}, "scale: expected sqrt or mean or none, got 'cube'"),
        ({"mechanism": "magic"}, "mechanism: expected none or softmax or .*, got 'magic'"),
        ({"encoder": "lstm"}, "encoder: expected gru or .*, got 'lstm'"),
        ({"head": "tail"}, "head: expected paper or copy, got 'tail'"),
        ({"mechanism": "linear", "head": "copy"}, "mechanism of the copy head: expected .*, got 'linear'"),
        ({"dropout": 1.0}, "dropout: expected a share from 0 to below 1, got 1.0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_invalid_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options(**given)


def test_options_survive_json() -> None:
    given = options(mechanism="named", positive=True, scale=None, seed=4, skip_malformed=True)
    read = json.loads(json.dumps(given.to_json()))
    assert TrainingOptions.from_json(read | {"out": "reader"}) == given


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match=r"training option: expected one of .*, got momentum"):
        TrainingOptions.from_json({"data": ["a"], "out": "b", "momentum": 1})


def test_folder_and_process_counts_are_not_part_of_the_json() -> None:
    assert options(out="a", num_workers=1, devices=2).to_json() == options(out="b").to_json()


class TestChanges:
    def test_are_returned_by_name(self) -> None:
        earlier = options(epochs=3, seed=1).to_json()
        assert options(epochs=4, seed=1).changes(earlier) == {"epochs": (3, 4)}

    def test_ignore_the_path_of_a_set(self) -> None:
        assert options(data=("elsewhere/news",)).changes(options().to_json()) == {}

    def test_include_the_name_of_a_set(self) -> None:
        assert options(data=("sets/novels",)).changes(options().to_json()) == {"data": (["news"], ["novels"])}

    def test_take_the_default_of_an_option_that_was_missing(self) -> None:
        earlier = options().to_json()
        del earlier["skip_malformed"]
        assert options().changes(earlier) == {}
        assert options(skip_malformed=True).changes(earlier) == {"skip_malformed": (False, True)}


def test_described_has_names_of_sets_instead_of_paths(tmp_path: Path) -> None:
    assert options(data=(str(tmp_path / "news"), "x/../novels/")).described()["data"] == ["news", "novels"]


def test_the_network_is_as_large_as_its_vocabulary() -> None:
    vocabulary = Vocabulary(("met", "left"), entities=4)
    made = network_options(options(hidden_size=5, mechanism="keyed"), vocabulary)
    assert (made.words, made.entities, made.first_entity) == (9, 4, 3)
    assert (made.hidden_size, made.mechanism, made.head) == (5, "keyed", "copy")


def test_json_has_the_names_of_version_0_1() -> None:
    made = options(lr=0.1, batch_size=8, cooccurrence=True, mechanism="named", hidden_size=5).to_json()
    assert (made["rate"], made["batch"], made["company"], made["size"]) == (0.1, 8, True, 5)
    assert not {"lr", "batch_size", "cooccurrence", "hidden_size"} & set(made)


def test_json_of_version_0_1_is_read() -> None:
    """As written into the checkpoints of 0.1.0: resuming compares with it."""
    written = json.loads(
        '{"data": ["sets/news"], "start": "", "frozen": false, "mechanism": "gated", "encoder": "gru", "head": "", '
        '"size": 8, "embedding": 8, "dropout": 0.0, "scale": "sqrt", "asked": true, "positive": false, '
        '"company": false, "join": "halves", "head_size": 0, "alike": false, "epochs": 2, "batch": 16, '
        '"questions": 3, "rate": 0.01, "warmup": 0.02, "clip": 5.0, "patience": 0, "seed": 0, "precision": "32", '
        '"skip_malformed": false}'
    )
    now = options(hidden_size=8, embedding_size=8, epochs=2, batch_size=16, questions=3, lr=0.01)
    assert now.changes(written) == {}
    assert json.loads(json.dumps(now.to_json())) == written
