"""The mechanisms with their parameters: modules for a model of one's own."""

from attar.nn.attention import (
    COPY_MECHANISMS,
    MECHANISMS,
    AdaptiveAttention,
    DecayedAttention,
    GatedAttention,
    KeyedAttention,
    LinearAttention,
    Mechanism,
    Memories,
    NamedAttention,
    NoAttention,
    SoftmaxAttention,
    attention,
)
from attar.nn.attention.forgetting import (
    ForgettingAttention,
)
from attar.nn.attention.keyed import (
    KeyMechanism,
)
from attar.nn.base_encoder import (
    Encoder,
)
from attar.nn.cooccurrence import (
    CooccurrenceScore,
)
from attar.nn.directions import (
    cut_long_sentences,
    sort_backward,
)
from attar.nn.encoder import (
    ENCODERS,
    LONGEST_LOOK,
    BidirectionalEncoder,
    GRUEncoder,
    LookaheadEncoder,
    TwoWayEncoder,
    encoder,
)
from attar.nn.network import (
    Documents,
    Network,
    Questions,
)
from attar.nn.network_options import (
    NetworkOptions,
    refuse_unknown,
)
from attar.nn.second_order import (
    SecondOrderEncoder,
)

__all__ = [
    "COPY_MECHANISMS",
    "ENCODERS",
    "LONGEST_LOOK",
    "MECHANISMS",
    "AdaptiveAttention",
    "BidirectionalEncoder",
    "CooccurrenceScore",
    "DecayedAttention",
    "Documents",
    "Encoder",
    "ForgettingAttention",
    "GRUEncoder",
    "GatedAttention",
    "KeyMechanism",
    "KeyedAttention",
    "LinearAttention",
    "LookaheadEncoder",
    "Mechanism",
    "Memories",
    "NamedAttention",
    "Network",
    "NetworkOptions",
    "NoAttention",
    "Questions",
    "SecondOrderEncoder",
    "SoftmaxAttention",
    "TwoWayEncoder",
    "attention",
    "cut_long_sentences",
    "encoder",
    "refuse_unknown",
    "sort_backward",
]
