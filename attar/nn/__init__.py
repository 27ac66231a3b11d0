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
from attar.nn.base_encoder import Encoder
from attar.nn.encoder import ENCODERS, BidirectionalEncoder, GRUEncoder, LookaheadEncoder, encoder
from attar.nn.second_order import SecondOrderEncoder

__all__ = [
    "COPY_MECHANISMS",
    "ENCODERS",
    "MECHANISMS",
    "AdaptiveAttention",
    "BidirectionalEncoder",
    "DecayedAttention",
    "Encoder",
    "GRUEncoder",
    "GatedAttention",
    "KeyedAttention",
    "LinearAttention",
    "LookaheadEncoder",
    "Mechanism",
    "Memories",
    "NamedAttention",
    "NoAttention",
    "SecondOrderEncoder",
    "SoftmaxAttention",
    "attention",
    "encoder",
]
