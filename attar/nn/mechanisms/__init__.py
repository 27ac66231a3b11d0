"""One class per mechanism with one interface: encode, extend, lookup, merge, subtract.

| name     | written per token        | memory | forgets                       |
|----------|--------------------------|--------|-------------------------------|
| none     | h                        | k      | all but the last token        |
| softmax  | h                        | n × k  | nothing                       |
| linear   | h hᵀ                     | k × k  | nothing                       |
| gated    | f fᵀ, f = σ(W h + b) ⊙ h | k × k  | nothing                       |
| decayed  | f fᵀ                     | k × k  | by gates α(h), β(h)           |
| adaptive | f fᵀ                     | k × k  | by gates α(h, C f), β(h, C f) |

Two write more than states, for answers copied from the text. They encode with `values=` or `names=`:

| name     | written                                           | memory      | forgets |
|----------|---------------------------------------------------|-------------|---------|
| keyed    | per token key xᵀ, key = σ(W h + b) ⊙ (V h)        | k × d       | nothing |
|          | with `ridge`, key keyᵀ as well                    | k × (d + k) | nothing |
| named    | per token its key, to the vector of the name      | names × k   | nothing |
"""

import inspect
from typing import Any, Literal, overload

from attar.errors import OptionError
from attar.nn.mechanisms.adaptive import AdaptiveAttention
from attar.nn.mechanisms.base import Mechanism
from attar.nn.mechanisms.baselines import NoAttention, SoftmaxAttention
from attar.nn.mechanisms.keyed import KeyedAttention, NamedAttention
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
        NamedAttention,
    )
}
# Those that write per token for the names of a cloze question.
COPY_MECHANISMS = (KeyedAttention.name, NamedAttention.name)
# Those that read only states, so that one can replace another.
MECHANISMS = tuple(name for name in _CLASSES if name not in COPY_MECHANISMS)


@overload
def attention(name: Literal["keyed"], size: int, heads: int = 1, **options: Any) -> KeyedAttention: ...
@overload
def attention(name: Literal["named"], size: int, heads: int = 1, **options: Any) -> NamedAttention: ...
@overload
def attention(name: str, size: int, heads: int = 1, **options: Any) -> Mechanism: ...
def attention(name: str, size: int, heads: int = 1, **options: Any) -> Mechanism:
    """The mechanism of that name for states of `size` dimensions, with the options of its class.

    >>> attention("linear", 100, scale="sqrt")
    LinearAttention(size=100, scale='sqrt')
    >>> MECHANISMS
    ('none', 'softmax', 'linear', 'gated', 'decayed', 'adaptive')
    >>> COPY_MECHANISMS
    ('keyed', 'named')
    """
    if name not in _CLASSES:
        raise OptionError.expected("mechanism", "one of " + ", ".join(_CLASSES), repr(name))
    if heads != 1:
        options["heads"] = heads
    parameters = inspect.signature(_CLASSES[name]).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError.expected(f"option of {name!r}", "one of " + ", ".join(known), ", ".join(unknown))
    return _CLASSES[name](size, **options)
