"""The sizes of a phrase network and of its encoder. No torch is loaded."""

from dataclasses import dataclass, field

# The longest span, in word pieces.
LONGEST = 10


@dataclass(frozen=True)
class TransformerShape:
    """The sizes of a transformer; the defaults are those of all-MiniLM-L6-v2."""

    vocabulary: int = 30_522
    size: int = 384
    layers: int = 6
    heads: int = 12
    feedforward: int = 1_536
    positions: int = 512


@dataclass(frozen=True)
class PhraseOptions:
    """The sizes of a phrase network: k of phrase vectors, and the dimension of the vectors of word pieces."""

    size: int = 64
    word_size: int = 32
    match: str = "static"
    values: int = 0  # d of memories of fixed size (`attar.nn.phrases`); 0 for none
    encoder: TransformerShape = field(default_factory=TransformerShape)
