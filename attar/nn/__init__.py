"""The mechanisms with their parameters: modules for a model of one's own."""

from attar.nn.attention import (
    MECHANISMS,
    AdaptiveAttention,
    DecayedAttention,
    GatedAttention,
    LinearAttention,
    Mechanism,
    Memories,
    NoAttention,
    SoftmaxAttention,
    attention,
)

__all__ = [
    "MECHANISMS",
    "AdaptiveAttention",
    "DecayedAttention",
    "GatedAttention",
    "LinearAttention",
    "Mechanism",
    "Memories",
    "NoAttention",
    "SoftmaxAttention",
    "attention",
]
