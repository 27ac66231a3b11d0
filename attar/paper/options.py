"""The options of `attar paper build`, `train` and `recall`; files store them under these names. Loads no torch."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from attar.errors import OptionError
from attar.options import check_ranges, option

SPLITS = ("training", "validation", "test")
# Three times the most names in a window of 900 tokens: 134 in 84 novels, 183 in 6,663 Wikipedia texts.
ENTITIES = 600
PAPER_MECHANISMS = ("none", "softmax", "linear", "gated", "decayed", "adaptive", "adaptive-energy")
COPY_MECHANISMS = ("keyed", "keyed-ridge")
# Of associative recall; the delta rules are references.
RECALL_MECHANISMS = (*PAPER_MECHANISMS, "keyed", "keyed-ridge", "delta", "gated-delta")
# Pairs that are read once, and pairs of a document that is read in parts.
RARE_PAIRS = 8
MERGED_PAIRS = 64
_LARGEST_SIZE = 2**20
_HIGHEST_SEED = 2**32 - 1  # NumPy's limit


@dataclass(frozen=True)
class BuildOptions:
    """How a set is built; the same options and sources give the same set."""

    window: int = option(900, "Approximate number of tokens per document.", min=20)
    questions: int = option(5, "Maximum questions per document in validation and test.", min=1)
    validation: str = option("0.08", "Validation texts: a share (0.08), or a rule on the position (i%20==0).")
    test: str = option("0.08", "Test texts: as for --validation.")
    seed: int = option(0, "Random seed; the same seed gives the same set.", min=0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What a network is made of, apart from its vocabulary. The defaults are the paper's."""

    mechanism: str = option("gated", f"{', '.join(PAPER_MECHANISMS)}, keyed or keyed-ridge.")
    hidden_size: int = option(100, "Hidden size k.", min=1, max=_LARGEST_SIZE)
    embedding_size: int = option(100, "Embedding size.", min=1, max=_LARGEST_SIZE)
    dropout: float = option(0.0, "Dropout probability.")

    def __post_init__(self) -> None:
        check_ranges(self)
        _check_choice("mechanism", self.mechanism, PAPER_MECHANISMS + COPY_MECHANISMS)
        if not 0 <= self.dropout < 1:
            raise OptionError.expected("dropout", "a share from 0 to below 1", repr(self.dropout))

    def network(self) -> "NetworkOptions":
        return NetworkOptions(**{field.name: getattr(self, field.name) for field in fields(NetworkOptions)})


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError.expected(what, " or ".join(allowed), repr(value))


@dataclass(frozen=True)
class TrainingOptions(NetworkOptions):
    """One training run; `changes` compares it with an earlier one."""

    data: str = option(MISSING, "Folder of a cloze set.", "-d")
    out: str = option(MISSING, "Folder to write.", "-o")
    epochs: int = option(12, "Number of epochs.", min=1)
    batch_size: int = option(64, "Documents per step.", min=1)
    questions: int = option(10, "Questions drawn per document and epoch.", min=1)
    lr: float = option(4e-3, "Peak learning rate of Adam.")
    seed: int = option(0, "Random seed.", min=0, max=_HIGHEST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr <= 0:
            raise OptionError.expected("lr", "a number above 0", str(self.lr))

    @property
    def folder(self) -> Path:
        return Path(self.out)

    def described(self) -> dict[str, Any]:
        """The options that determine the result: the set's name instead of its path, and no folder to write."""
        values = {name: value for name, value in vars(self).items() if name != "out"}
        return values | {"data": Path(self.data).resolve().name}

    def changes(self, earlier: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from the description of an earlier run: (then, now) by name."""
        now = self.described()
        return {name: (earlier.get(name), now[name]) for name in now if earlier.get(name) != now[name]}


@dataclass(frozen=True)
class RecallOptions:
    """An experiment with associative recall; every mechanism is trained with every size and seed."""

    task: str = option("pairs", "pairs: distinct pairs; rare: half of the pairs once, the others repeated.")
    mechanisms: str = option(",".join(RECALL_MECHANISMS), "Mechanisms, separated by commas.")
    sizes: str = option("32,64", "Hidden sizes k, separated by commas.")
    lengths: str = option("32,64,128", "Pairs per document, repeated ones included, separated by commas.")
    seeds: int = option(3, "Runs per mechanism and size, each with another seed.", min=1)
    steps: int = option(600, "Training steps, each on documents of one length, in turns.", min=1)
    lr: float = option(1e-2, "Peak learning rate of Adam.")
    vocabulary: int = option(512, "Number of different keys, and of different values.", min=MERGED_PAIRS)

    def __post_init__(self) -> None:
        check_ranges(self)
        _check_choice("task", self.task, ("pairs", "rare"))
        for name in self.mechanisms.split(","):
            _check_choice("mechanisms", name, RECALL_MECHANISMS)
        if self.lr <= 0:
            raise OptionError.expected("lr", "a number above 0", str(self.lr))
        least = 2 * RARE_PAIRS + 1 if self.task == "rare" else 2
        most = self.vocabulary if self.task == "pairs" else _LARGEST_SIZE
        for value in whole_numbers("lengths", self.lengths):
            if not least <= value <= most:
                raise OptionError.expected("lengths", f"numbers from {least} to {most}", str(value))
        whole_numbers("sizes", self.sizes)


def mechanism_options(name: str) -> tuple[str, dict[str, Any]]:
    """What `attar.nn.attention` takes: the mechanism of a name, and its options; a ridge's readouts need no scale.

    >>> mechanism_options("keyed-ridge"), mechanism_options("adaptive-energy")
    (('keyed', {'ridge': True}), ('adaptive', {'scale': 'sqrt', 'energy': True}))
    """
    kind, _, variant = name.partition("-")
    if kind in ("none", "softmax"):
        return kind, {}
    if variant == "ridge":
        return kind, {"ridge": True}
    return kind, {"scale": "sqrt"} | ({"energy": bool(variant)} if kind == "adaptive" else {})


def whole_numbers(what: str, text: str) -> list[int]:
    """Numbers from 1 up that are separated by commas.

    >>> whole_numbers("sizes", "32,64")
    [32, 64]
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= _LARGEST_SIZE for part in parts):
        raise OptionError.expected(what, "whole numbers above 0, separated by commas", repr(text))
    return [int(part) for part in parts]
