"""The options of a network, as a file stores them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

import msgspec

from attar.errors import OptionError
from attar.nn.encoders import ENCODERS, JOINS, TWO_WAY
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.options import ModelOptions, check_ranges

HEADS = ("paper", "copy")
# Far beyond any reader, and small enough that no product of two overflows. What a file claims within these ranges is
# compared with its weights before anything is allocated.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


@dataclass(frozen=True)
class NetworkOptions(ModelOptions):
    """A model's options and the sizes of its vocabulary.

    `head=""` is the copy head for mechanisms that write for it (keyed, named), else the paper's head. `positive` makes
    the keys of `named` and the queries positive, and scores logarithms of weights.
    """

    words: _Count  # vocabulary size, names included
    entities: _Count  # number of names
    first_entity: _Count = 3

    def __post_init__(self) -> None:
        if not self.head:
            default = "copy" if self.mechanism in COPY_MECHANISMS else "paper"
            object.__setattr__(self, "head", default)
        check_ranges(self)
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
                raise OptionError.expected(what, " or ".join(allowed), repr(value))
        if not 0 <= self.dropout < 1:
            raise OptionError.expected("dropout", "a share from 0 to below 1", repr(self.dropout))
        if self.first_entity + self.entities > self.words:
            came = f"{self.entities} from {self.first_entity} up"
            raise OptionError.expected("entities", f"names among the {self.words} words", came)

    def to_json(self) -> dict[str, Any]:
        """All options, by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, options: Mapping[str, Any]) -> "NetworkOptions":
        """The options that `to_json` returned; unknown names, other types and values out of range are refused."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(options) - known):
            raise OptionError.expected("network option", ", ".join(sorted(known)), ", ".join(unknown))
        try:
            return msgspec.convert(options, cls)
        except msgspec.ValidationError as fault:
            if isinstance(fault.__cause__, OptionError):  # raised by `__post_init__`
                raise fault.__cause__ from None
            raise OptionError.expected("network options", "their types and ranges", str(fault)) from fault
