"""What a network is made of, said in names and numbers that a file can hold."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from attar.errors import OptionError
from attar.nn.attention import COPY_MECHANISMS, MECHANISMS
from attar.nn.attention.mechanism import Scale
from attar.nn.encoder import ENCODERS, JOINS, TWO_WAY

HEADS = ("paper", "copy")


@dataclass(frozen=True)
class NetworkOptions:
    """What a network is made of; the paper's sizes are the defaults.

    `head=""` takes the copy readout where the mechanism writes for it (keyed, named), else the paper's head.
    `asked` learns what it means that the question holds a name; `positive` makes the keys of `named`, and the
    queries, positive, and scores logarithms of weights; `cooccurrence` also scores names by the words near them.
    `join` says how an encoder that reads both ways puts its two states together, `head_size` how many numbers the
    paper's head mixes, 0 for as many as a state has.
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
    cooccurrence: bool = False
    join: str = "halves"
    head_size: int = 0

    def __post_init__(self) -> None:
        allowed = {
            "mechanism": (*MECHANISMS, *COPY_MECHANISMS),
            "encoder": ENCODERS,
            "head": ("", *HEADS),
            "join": JOINS,
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
        if self.cooccurrence and self.mechanism != "named":
            raise OptionError("mechanism with co-occurrence", "named", repr(self.mechanism))
        if self.join != "halves" and self.encoder not in TWO_WAY:
            raise OptionError("encoder with a join", " or ".join(TWO_WAY), repr(self.encoder))
        if self.head_size < 0:
            raise OptionError("head_size", "a whole number from 1 up, or 0 for size", repr(self.head_size))
        if not self.head:
            object.__setattr__(self, "head", "copy" if self.mechanism in COPY_MECHANISMS else "paper")
        if self.head_size and self.head != "paper":
            raise OptionError("head with a size", "paper", repr(self.head))

    def to_json(self) -> dict[str, Any]:
        """All options by name."""
        given = asdict(self)
        given["company"] = given.pop("cooccurrence")  # its name in files since version 0.1.0
        # What a reader is fingerprinted by stays as it was before there were these.
        for name, usual in (("company", False), ("join", "halves"), ("head_size", 0)):
            if given[name] == usual:
                del given[name]
        return given

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> "NetworkOptions":
        """Take up what `to_json` gave; unknown names are refused."""
        renamed = {"cooccurrence" if name == "company" else name: value for name, value in options.items()}
        refuse_unknown("network option", renamed, (each.name for each in fields(cls)))
        return cls(**renamed)


def refuse_unknown(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of options that there are none of.

    >>> refuse_unknown("option", ["sise"], ["size", "scale"])
    Traceback (most recent call last):
    attar.errors.OptionError: option: expected one of scale, size, got sise
    """
    there = sorted(known)
    unknown = sorted(set(options).difference(there))
    if unknown:
        raise OptionError(what, "one of " + ", ".join(there), ", ".join(unknown))
