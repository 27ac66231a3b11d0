"""How a reader is trained: said once, kept beside it, and the same on every machine."""

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from attar.errors import OptionError
from attar.nn import NetworkOptions, refuse_unknown
from attar.text import Vocabulary

PRECISIONS = ("32", "bf16-mixed", "16-mixed")
HIGHEST_SEED = 2**32 - 1  # NumPy takes no higher one


@dataclass(frozen=True)
class TrainingOptions:
    """One training run. A batch is counted over all processes, so that two make the steps that one would."""

    data: tuple[str, ...]
    out: str
    start: str = ""  # a reader to train on, or "default"; the options that it settles must be its own
    frozen: bool = False  # train only what the reader to train on did not have
    mechanism: str = "gated"
    encoder: str = "gru"
    head: str = ""
    size: int = 100
    embedding: int = 100
    dropout: float = 0.0
    scale: Literal["sqrt", "mean"] | None = "sqrt"
    asked: bool = True
    positive: bool = False
    company: bool = False
    join: str = "halves"
    head_size: int = 0
    alike: bool = False  # let the question's encoder start as the document's
    epochs: int = 12
    batch: int = 64
    questions: int = 10
    rate: float = 4e-3
    warmup: float = 0.02
    clip: float = 5.0
    patience: int = 0
    seed: int = 0
    precision: str = "32"
    workers: int = -1
    processes: int = 1
    skip_malformed: bool = False

    def __post_init__(self) -> None:
        if not self.data:
            raise OptionError("data", "a cloze set's folder at least", "none")
        for name in ("rate", "warmup", "clip", "dropout"):
            if not math.isfinite(getattr(self, name)):
                raise OptionError(name, "a finite number", str(getattr(self, name)))
        for name, lowest in (
            ("size", 1),
            ("embedding", 1),
            ("epochs", 1),
            ("batch", 1),
            ("questions", 1),
            ("processes", 1),
            ("workers", -1),
            ("patience", 0),
            ("seed", 0),
            ("clip", 0),
        ):
            if getattr(self, name) < lowest:
                raise OptionError(name, f"{lowest} or more", str(getattr(self, name)))
        if self.seed > HIGHEST_SEED:
            raise OptionError("seed", f"{HIGHEST_SEED} or less", str(self.seed))
        if self.rate <= 0:
            raise OptionError("rate", "a number above 0", str(self.rate))
        if not 0 <= self.warmup <= 1:
            raise OptionError("warmup", "a share from 0 to 1", str(self.warmup))
        if self.precision not in PRECISIONS:
            raise OptionError("precision", " or ".join(PRECISIONS), repr(self.precision))
        if self.scale not in (None, "sqrt", "mean"):
            raise OptionError("scale", "sqrt or mean or none", repr(self.scale))
        if self.frozen and not (self.start and self.company):
            wanted = "a reader to train on and something to give it: start and company"
            raise OptionError("frozen", wanted, "neither" if not self.start else "a reader alone")
        if self.alike and self.start:
            raise OptionError(
                "alike", "a run from the start", "a reader to train on", "leave one of them out"
            )
        # Refused here, and not when the words of a set have been counted.
        network_options(self, Vocabulary(()))

    @property
    def folder(self) -> Path:
        """Where the reader is written."""
        return Path(self.out)

    def to_json(self) -> dict[str, Any]:
        """All options by name, but for where and by how many it is run."""
        given = asdict(self)
        return {name: given[name] for name in given if name not in ("out", "workers", "processes")}

    def described(self) -> dict[str, Any]:
        """The same with the sets' names instead of their places, for what is handed on."""
        named = {"data": [Path(each).resolve().name for each in self.data]}
        return self.to_json() | named | {"start": Path(self.start).name if self.start else ""}

    def changes(self, earlier: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What is not as in earlier options, by name: then and now.

        Sets may have moved, but keep their names; an option that there was not yet had its default.
        """
        then = TrainingOptions.from_json(earlier | {"out": self.out}).described()
        now = self.described()
        return {name: (then[name], now[name]) for name in now if then[name] != now[name]}

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> "TrainingOptions":
        """Take up options by name; unknown names are refused."""
        refuse_unknown("training option", options, (each.name for each in fields(cls)))
        return cls(**options | {"data": tuple(options.get("data", ()))})


def network_options(options: TrainingOptions, vocabulary: Vocabulary) -> NetworkOptions:
    """The network that a run trains."""
    return NetworkOptions(
        words=len(vocabulary),
        entities=vocabulary.entities,
        first_entity=vocabulary.first_entity,
        mechanism=options.mechanism,
        encoder=options.encoder,
        head=options.head,
        embedding=options.embedding,
        size=options.size,
        dropout=options.dropout,
        scale=options.scale,
        asked=options.asked,
        positive=options.positive,
        cooccurrence=options.company,
        join=options.join,
        head_size=options.head_size,
    )
