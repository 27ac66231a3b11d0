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
        ({"data": ()}, "data: expected a cloze set's folder at least, got none"),
        ({"epochs": 0}, "epochs: expected 1 or more, got 0"),
        ({"batch": 0}, "batch: expected 1 or more, got 0"),
        ({"size": 0}, "size: expected 1 or more, got 0"),
        ({"patience": -1}, "patience: expected 0 or more, got -1"),
        ({"clip": -1.0}, "clip: expected 0 or more, got -1.0"),
        ({"clip": float("nan")}, "clip: expected a finite number, got nan"),
        ({"clip": float("inf")}, "clip: expected a finite number, got inf"),
        ({"rate": float("inf")}, "rate: expected a finite number, got inf"),
        ({"warmup": float("nan")}, "warmup: expected a finite number, got nan"),
        ({"dropout": float("nan")}, "dropout: expected a finite number, got nan"),
        ({"seed": 2**32}, "seed: expected 4294967295 or less, got 4294967296"),
        ({"warmup": 1.5}, "warmup: expected a share from 0 to 1, got 1.5"),
        ({"workers": -2}, "workers: expected -1 or more, got -2"),
        ({"rate": 0.0}, "rate: expected a number above 0, got 0.0"),
        ({"rate": float("nan")}, "rate: expected a finite number, got nan"),
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
def test_what_cannot_work_is_refused_at_once(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options(**given)


def test_options_go_through_json() -> None:
    given = options(mechanism="named", positive=True, scale=None, seed=4, skip_malformed=True)
    read = json.loads(json.dumps(given.to_json()))
    assert TrainingOptions.from_json(read | {"out": "reader"}) == given


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match=r"training option: expected one of .*, got momentum"):
        TrainingOptions.from_json({"data": ["a"], "out": "b", "momentum": 1})


def test_where_and_by_how_many_it_is_run_makes_no_other_training() -> None:
    assert options(out="a", workers=1, processes=2).to_json() == options(out="b").to_json()


class TestChanges:
    def test_are_told_by_name(self) -> None:
        earlier = options(epochs=3, seed=1).to_json()
        assert options(epochs=4, seed=1).changes(earlier) == {"epochs": (3, 4)}

    def test_of_a_sets_place_are_none(self) -> None:
        assert options(data=("elsewhere/news",)).changes(options().to_json()) == {}

    def test_of_the_set_are_told(self) -> None:
        assert options(data=("sets/novels",)).changes(options().to_json()) == {"data": (["news"], ["novels"])}

    def test_of_an_option_that_there_was_not_yet_are_from_its_default(self) -> None:
        earlier = options().to_json()
        del earlier["skip_malformed"]
        assert options().changes(earlier) == {}
        assert options(skip_malformed=True).changes(earlier) == {"skip_malformed": (False, True)}


def test_what_is_handed_on_names_sets_and_not_their_places(tmp_path: Path) -> None:
    assert options(data=(str(tmp_path / "news"), "x/../novels/")).described()["data"] == ["news", "novels"]


def test_the_network_is_as_large_as_its_vocabulary() -> None:
    vocabulary = Vocabulary(("met", "left"), entities=4)
    made = network_options(options(size=5, mechanism="keyed"), vocabulary)
    assert (made.words, made.entities, made.first_entity) == (9, 4, 3)
    assert (made.size, made.mechanism, made.head) == (5, "keyed", "copy")
