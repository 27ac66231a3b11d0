"""One class per mechanism with one interface: encode, extend, lookup; memories are added and subtracted.

| name     | written per token        | memory | forgets                       |
|----------|--------------------------|--------|-------------------------------|
| none     | h                        | k      | all but the last token        |
| softmax  | h                        | n × k  | nothing                       |
| linear   | h hᵀ                     | k × k  | nothing                       |
| gated    | f fᵀ, f = σ(W h + b) ⊙ h | k × k  | nothing                       |
| decayed  | f fᵀ                     | k × k  | by gates α(h), β(h)           |
| adaptive | f fᵀ                     | k × k  | by gates α(h, C f), β(h, C f) |

keyed encodes with `values=` x: it writes key xᵀ per token, key = σ(W h + b) ⊙ (V h), a memory k × d; with `ridge`
key keyᵀ as well, k × (d + k). It forgets nothing.
"""

import inspect
from typing import Any, Literal, overload

from attar.errors import OptionError
from attar.nn.mechanisms.adaptive import AdaptiveAttention
from attar.nn.mechanisms.base import Mechanism
from attar.nn.mechanisms.baselines import NoAttention, SoftmaxAttention
from attar.nn.mechanisms.keyed import KeyedAttention
from attar.nn.mechanisms.linear import DecayedAttention, GatedAttention, LinearAttention

_CLASSES: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        NoAttention,
        SoftmaxAttention,
        LinearAttention,
        GatedAttention,
        DecayedAttention,
        AdaptiveAttention,
        KeyedAttention,
    )
}


@overload
def attention(name: Literal["keyed"], size: int, heads: int = 1, **options: Any) -> KeyedAttention: ...
@overload
def attention(name: str, size: int, heads: int = 1, **options: Any) -> Mechanism: ...
def attention(name: str, size: int, heads: int = 1, **options: Any) -> Mechanism:
    """The mechanism of that name for states of `size` dimensions, with the options of its class.

    >>> attention("linear", 100, scale="sqrt")
    LinearAttention(size=100, scale='sqrt')
    """
    if name not in _CLASSES:
        raise OptionError.expected("mechanism", "one of " + ", ".join(_CLASSES), repr(name))
    parameters = inspect.signature(_CLASSES[name]).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError.expected(f"option of {name!r}", "one of " + ", ".join(known), ", ".join(unknown))
    return _CLASSES[name](size, heads=heads, **options)
