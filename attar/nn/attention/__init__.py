"""One class a mechanism, one interface: encode, extend, lookup.

| name     | written of a token       | memory | forgets                       |
|----------|--------------------------|--------|-------------------------------|
| none     | h                        | k      | all but the last token        |
| softmax  | h                        | n × k  | nothing                       |
| linear   | h hᵀ                     | k × k  | nothing                       |
| gated    | f fᵀ, f = σ(W h + b) ⊙ h | k × k  | nothing                       |
| decayed  | f fᵀ                     | k × k  | by gates α(h), β(h)           |
| adaptive | f fᵀ                     | k × k  | by gates α(h, C f), β(h, C f) |
"""

import inspect
from typing import Any

from attar.errors import OptionError
from attar.nn.attention.additive import GatedAttention, LinearAttention
from attar.nn.attention.baselines import NoAttention, SoftmaxAttention
from attar.nn.attention.forgetting import AdaptiveAttention, DecayedAttention
from attar.nn.attention.mechanism import MatrixMechanism, Mechanism
from attar.nn.attention.memories import Memories

__all__ = [
    "MECHANISMS",
    "AdaptiveAttention",
    "DecayedAttention",
    "GatedAttention",
    "LinearAttention",
    "MatrixMechanism",
    "Mechanism",
    "Memories",
    "NoAttention",
    "SoftmaxAttention",
    "attention",
]

_CLASSES: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        NoAttention,
        SoftmaxAttention,
        LinearAttention,
        GatedAttention,
        DecayedAttention,
        AdaptiveAttention,
    )
}
MECHANISMS = tuple(_CLASSES)


def attention(name: str, size: int, **options: Any) -> Mechanism:
    """The mechanism of that name for states of `size` numbers, with the options of its class.

    >>> attention("linear", 100, scale="sqrt")
    LinearAttention(size=100, scale='sqrt')
    >>> MECHANISMS
    ('none', 'softmax', 'linear', 'gated', 'decayed', 'adaptive')
    """
    if name not in _CLASSES:
        raise OptionError("mechanism", "one of " + ", ".join(MECHANISMS), repr(name))
    kind = _CLASSES[name]
    known = [option for option in inspect.signature(kind).parameters if option != "size"]
    unknown = [option for option in options if option not in known]
    if unknown:
        wanted = "one of " + ", ".join(known) if known else "none"
        raise OptionError(f"option of {name!r}", wanted, ", ".join(unknown))
    return kind(size, **options)
