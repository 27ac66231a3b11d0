"""The options of a network, as a file stores them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

import msgspec

from attar.errors import OptionError
from attar.nn.encoders import ENCODERS, JOINS, TWO_WAY
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.nn.mechanisms.base import Scale

HEADS = ("paper", "copy")
# Far beyond any reader, and small enough that no product of two overflows. What a file claims within these ranges is
# compared with its weights before anything is allocated.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
_Size = Annotated[int, msgspec.Meta(ge=1, le=2**20)]


@dataclass(frozen=True)
class NetworkOptions:
    """The options of a network; the defaults are the paper's sizes.

    `head=""` is the copy head for mechanisms that write for it (keyed, named), else the paper's head. `asked` learns a
    bonus for names that occur in the question; `positive` makes the keys of `named` and the queries positive, and
    scores logarithms of weights; `cooccurrence` also scores names by their co-occurrence with the question's words.
    `join` is how a two-way encoder joins its two states, `head_size` the hidden size of the paper's head, 0 for `size`.
    """

    words: _Count  # vocabulary size, names included
    entities: _Count  # number of names
    first_entity: _Count = 3
    mechanism: str = "gated"
    encoder: str = "gru"
    head: str = ""
    embedding: _Size = 100
    size: _Size = 100
    dropout: float = 0.0
    scale: Scale = "sqrt"
    asked: bool = True
    positive: bool = False
    cooccurrence: bool = False
    join: str = "halves"
    head_size: Annotated[int, msgspec.Meta(ge=0, le=2**20)] = 0

    def __post_init__(self) -> None:
        if not self.head:
            default = "copy" if self.mechanism in COPY_MECHANISMS else "paper"
            object.__setattr__(self, "head", default)
        rules = (
            ("mechanism", True, self.mechanism, (*MECHANISMS, *COPY_MECHANISMS)),
            ("encoder", True, self.encoder, ENCODERS),
            ("head", True, self.head, HEADS),
            ("join", True, self.join, JOINS),
            (
                "mechanism of the copy head",
                self.head == "copy",
                self.mechanism,
                (*COPY_MECHANISMS, "softmax"),
            ),
            ("mechanism of the paper's head", self.head == "paper", self.mechanism, MECHANISMS),
            ("mechanism with positive keys", self.positive, self.mechanism, ("named",)),
            ("mechanism with co-occurrence", self.cooccurrence, self.mechanism, ("named",)),
            ("encoder with a join", self.join != "halves", self.encoder, TWO_WAY),
            ("head with a size", self.head_size > 0, self.head, ("paper",)),
        )
        for what, applies, value, allowed in rules:
            if applies and value not in allowed:
                raise OptionError(what, " or ".join(allowed), repr(value))
        if not 0 <= self.dropout < 1:
            raise OptionError("dropout", "a share from 0 to below 1", repr(self.dropout))
        if self.head_size < 0:
            raise OptionError("head_size", "a whole number from 1 up, or 0 for size", repr(self.head_size))
        if self.first_entity + self.entities > self.words:
            came = f"{self.entities} from {self.first_entity} up"
            raise OptionError("entities", f"names among the {self.words} words", came)

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
        """The options that `to_json` returned; unknown names, other types and values out of range are refused."""
        renamed = {"cooccurrence" if name == "company" else name: value for name, value in options.items()}
        refuse_unknown("network option", renamed, (each.name for each in fields(cls)))
        try:
            return msgspec.convert(renamed, cls)
        except msgspec.ValidationError as fault:
            if isinstance(fault.__cause__, OptionError):  # raised by `__post_init__`
                raise fault.__cause__ from None
            raise OptionError("network options", "their types and ranges", str(fault)) from fault


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
