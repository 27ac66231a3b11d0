"""What a network is made of, said in names and numbers that a file can hold."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from attar.errors import OptionError
from attar.nn.attention import COPY_MECHANISMS, MECHANISMS
from attar.nn.attention.mechanism import Scale
from attar.nn.encoder import ENCODERS

HEADS = ("paper", "copy")


@dataclass(frozen=True)
class NetworkOptions:
    """What a network is made of; the paper's sizes are the defaults.

    `head=""` takes the copy readout where the mechanism writes for it (keyed, named), else the paper's head.
    `asked` learns what it means that the question holds a name; `positive` makes the keys of `named`, and the
    queries, positive, and scores logarithms of weights; `company` scores names also by what stood near them.
    """

    words: int  # ids there are, the names' among them
    entities: int  # of which are names'
    first_entity: int = 3
    mechanism: str = "gated"
    encoder: str = "gru"
    head: str = ""
    embedding: int = 100
    size: int = 100
    dropout: float = 0.0
    scale: Scale = "sqrt"
    asked: bool = True
    positive: bool = False
    company: bool = False

    def __post_init__(self) -> None:
        allowed = {
            "mechanism": (*MECHANISMS, *COPY_MECHANISMS),
            "encoder": ENCODERS,
            "head": ("", *HEADS),
        }
        for name, choices in allowed.items():
            if getattr(self, name) not in choices:
                raise OptionError(name, " or ".join(filter(None, choices)), repr(getattr(self, name)))
        if not 0 <= self.dropout < 1:
            raise OptionError("dropout", "a share from 0 to below 1", repr(self.dropout))
        copies = (*COPY_MECHANISMS, "softmax")
        if self.head == "copy" and self.mechanism not in copies:
            raise OptionError("mechanism of the copy head", " or ".join(copies), repr(self.mechanism))
        if self.head == "paper" and self.mechanism in COPY_MECHANISMS:
            raise OptionError("mechanism of the paper's head", " or ".join(MECHANISMS), repr(self.mechanism))
        if self.positive and self.mechanism != "named":
            raise OptionError("mechanism with positive keys", "named", repr(self.mechanism))
        if self.company and self.mechanism != "named":
            raise OptionError("mechanism that keeps company", "named", repr(self.mechanism))
        if not self.head:
            object.__setattr__(self, "head", "copy" if self.mechanism in COPY_MECHANISMS else "paper")

    def to_json(self) -> dict[str, Any]:
        """All options by name."""
        given = asdict(self)
        if not self.company:
            del given["company"]  # what a reader is fingerprinted by stays as it was before there was any
        return given

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> "NetworkOptions":
        """Take up what `to_json` gave; unknown names are refused."""
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise OptionError("network option", "one of " + ", ".join(sorted(known)), ", ".join(unknown))
        return cls(**options)
