"""The options of `attar paper build` and `attar paper train`; files store them under these names. Loads no torch."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from attar.errors import OptionError
from attar.options import check_ranges, option

SPLITS = ("training", "validation", "test")
# Three times the most names in a window of 900 tokens: 134 in 84 novels, 183 in 6,663 Wikipedia texts.
ENTITIES = 600
# NumPy's limit.
HIGHEST_SEED = 2**32 - 1
_LARGEST_SIZE = 2**20
# Where a network is written, and how batches are prepared, does not change the result.
_WITHOUT_EFFECT = ("out", "num_workers")


@dataclass(frozen=True)
class BuildOptions:
    """How a set is built; the same options and sources give the same set."""

    window: int = option(900, "Approximate number of tokens per document.", min=20)
    questions: int = option(5, "Maximum questions per document in validation and test.", min=1)
    validation: str = option("0.08", "Validation texts: a share (0.08), a rule (i%20==0) or a file of names.")
    test: str = option("0.08", "Test texts: as for --validation.")
    seed: int = option(0, "Random seed; the same seed gives the same set.", min=0)
    vocabulary_size: int = option(20_000, "Number of words in the vocabulary.", min=1)
    entities: int = option(
        ENTITIES, "Most names of a document that a network can tell apart.", min=1, max=9_999
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What a network is made of, apart from its vocabulary. The defaults are the paper's."""

    mechanism: str = option("gated", "none, softmax, linear, gated, decayed, adaptive, keyed or named.")
    encoder: str = option("gru", "gru, lookahead, bidirectional or second-order.")
    join: str = option(
        "halves", "Join the forward and backward states: halves (concatenate) or sum; not for gru."
    )
    head: str = option("", "paper or copy; by default the one that suits the mechanism.")
    head_size: int = option(
        0, "Hidden size of the paper head; 0 for --hidden-size.", min=0, max=_LARGEST_SIZE
    )
    hidden_size: int = option(100, "Hidden size k.", min=1, max=_LARGEST_SIZE)
    embedding_size: int = option(100, "Embedding size.", min=1, max=_LARGEST_SIZE)
    dropout: float = option(0.0, "Dropout probability.")
    scale: Literal["sqrt", "mean", "none"] = option(
        "sqrt",
        "Divide readouts by the square root of the token count (sqrt), by the token count (mean), or not (none).",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        mechanisms = ("none", "softmax", "linear", "gated", "decayed", "adaptive")
        _check_choice("mechanism", self.mechanism, (*mechanisms, "keyed", "named"))
        _check_choice("encoder", self.encoder, ("gru", "lookahead", "bidirectional", "second-order"))
        _check_choice("join", self.join, ("halves", "sum"))
        _check_choice("head", self.chosen_head, ("paper", "copy"))
        _check_choice("scale", self.scale, ("sqrt", "mean", "none"))
        if self.chosen_head == "copy":
            _check_choice("mechanism of the copy head", self.mechanism, ("keyed", "named", "softmax"))
        else:
            _check_choice("mechanism of the paper's head", self.mechanism, mechanisms)
        if self.join != "halves":
            _check_choice("encoder with a join", self.encoder, ("lookahead", "bidirectional"))
        if self.head_size:
            _check_choice("head with a size", self.chosen_head, ("paper",))
        if not 0 <= self.dropout < 1:
            raise OptionError.expected("dropout", "a share from 0 to below 1", repr(self.dropout))

    @property
    def chosen_head(self) -> str:
        """The head as given, or else the one that suits the mechanism."""
        return self.head or ("copy" if self.mechanism in ("keyed", "named") else "paper")

    def network(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(NetworkOptions)}


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError.expected(what, " or ".join(allowed), repr(value))


@dataclass(frozen=True)
class TrainingOptions(NetworkOptions):
    """One training run; `changes` compares it with an earlier one."""

    data: str = option(MISSING, "Folder of a cloze set.", "-d")
    out: str = option(MISSING, "Folder to write.", "-o")
    shared_init: bool = option(False, "Initialize the question encoder with the document encoder's weights.")
    epochs: int = option(12, "Number of epochs.", min=1)
    batch_size: int = option(64, "Documents per step.", min=1)
    questions: int = option(10, "Questions drawn per document and epoch.", min=1)
    lr: float = option(4e-3, "Peak learning rate of Adam.")
    warmup: float = option(0.02, "Share of the steps in which the learning rate rises.", min=0, max=1)
    grad_clip: float = option(5.0, "Maximum gradient norm; 0 disables clipping.", min=0)
    patience: int = option(0, "Stop after this many epochs without improvement; 0 disables it.", min=0)
    seed: int = option(0, "Random seed.", min=0, max=HIGHEST_SEED)
    num_workers: int = option(-1, "Processes that prepare batches; -1 chooses a number.", min=-1)
    skip_malformed: bool = option(False, "Skip malformed .question files, with a warning.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr <= 0:
            raise OptionError.expected("lr", "a number above 0", str(self.lr))

    @property
    def folder(self) -> Path:
        return Path(self.out)

    def described(self) -> dict[str, Any]:
        """The options that determine the result, with the set's name instead of its path."""
        values = {name: value for name, value in vars(self).items() if name not in _WITHOUT_EFFECT}
        return values | {"data": Path(self.data).resolve().name}

    def changes(self, earlier: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from the description of an earlier run: (then, now) by name."""
        now = self.described()
        return {name: (earlier.get(name), now[name]) for name in now if earlier.get(name) != now[name]}
