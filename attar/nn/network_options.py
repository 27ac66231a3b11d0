"""The options of a network, as a file stores them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from attar.errors import OptionError
from attar.nn.encoders import ENCODERS, JOINS, TWO_WAY
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.nn.mechanisms.base import Scale

HEADS = ("paper", "copy")


@dataclass(frozen=True)
class NetworkOptions:
    """The options of a network; the defaults are the paper's sizes.

    `head=""` is the copy head for mechanisms that write for it (keyed, named), else the paper's head. `asked` learns a
    bonus for names that occur in the question; `positive` makes the keys of `named` and the queries positive, and
    scores logarithms of weights; `cooccurrence` also scores names by their co-occurrence with the question's words.
    `join` is how a two-way encoder joins its two states, `head_size` the hidden size of the paper's head, 0 for `size`.
    """

    words: int  # vocabulary size, names included
    entities: int  # number of names
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
        options = asdict(self)
        options["company"] = options.pop("cooccurrence")  # its name in files since version 0.1.0
        # Later options are left out at their defaults, so that fingerprints of earlier readers stay the same.
        for name, default in (("company", False), ("join", "halves"), ("head_size", 0)):
            if options[name] == default:
                del options[name]
        return options

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> "NetworkOptions":
        """The options that `to_json` returned; unknown names are refused."""
        renamed = {"cooccurrence" if name == "company" else name: value for name, value in options.items()}
        refuse_unknown("network option", renamed, (each.name for each in fields(cls)))
        return cls(**renamed)


def refuse_unknown(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown names of options.

    >>> refuse_unknown("option", ["sise"], ["size", "scale"])
    Traceback (most recent call last):
    attar.errors.OptionError: option: expected one of scale, size, got sise
    """
    names = sorted(known)
    unknown = sorted(set(options).difference(names))
    if unknown:
        raise OptionError(what, "one of " + ", ".join(names), ", ".join(unknown))
