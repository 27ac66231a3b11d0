"""The mechanisms and encoders with their parameters, as torch.nn modules.

Names load when they are first used: the options of a network need no torch.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.nn.cooccurrence import CooccurrenceScore
    from attar.nn.encoders import (
        ENCODERS,
        LONGEST_LOOK,
        BidirectionalEncoder,
        Encoder,
        GRUEncoder,
        LookaheadEncoder,
        SecondOrderEncoder,
        TransformerEncoder,
        TwoWayEncoder,
        encoder,
    )
    from attar.nn.gru import cut_long_sentences, sort_backward
    from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS, attention
    from attar.nn.mechanisms.base import Mechanism, Memories, length_scale
    from attar.nn.mechanisms.baselines import NoAttention, SoftmaxAttention
    from attar.nn.mechanisms.keyed import KeyedAttention, KeyMechanism, NamedAttention
    from attar.nn.mechanisms.linear import (
        AdaptiveAttention,
        DecayedAttention,
        ForgettingAttention,
        GatedAttention,
        LinearAttention,
    )
    from attar.nn.mechanisms.phrases import PhraseAttention
    from attar.nn.network import Documents, Network, Questions
    from attar.nn.network_options import NetworkOptions
    from attar.nn.phrase_options import LONGEST, PhraseOptions, TransformerShape
    from attar.nn.phrases import (
        EncodedQuestions,
        EncodedTexts,
        PhraseNetwork,
        QuickQuestions,
        RidgeReadout,
        SpanVectors,
        at_spans,
        following,
        valid_spans,
    )
    from attar.nn.transformer import Transformer, from_published, without_initialization

__all__ = [
    "COPY_MECHANISMS",
    "ENCODERS",
    "LONGEST",
    "LONGEST_LOOK",
    "MECHANISMS",
    "AdaptiveAttention",
    "BidirectionalEncoder",
    "CooccurrenceScore",
    "DecayedAttention",
    "Documents",
    "EncodedQuestions",
    "EncodedTexts",
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
    "PhraseAttention",
    "PhraseNetwork",
    "PhraseOptions",
    "Questions",
    "QuickQuestions",
    "RidgeReadout",
    "SecondOrderEncoder",
    "SoftmaxAttention",
    "SpanVectors",
    "Transformer",
    "TransformerEncoder",
    "TransformerShape",
    "TwoWayEncoder",
    "at_spans",
    "attention",
    "cut_long_sentences",
    "encoder",
    "following",
    "from_published",
    "length_scale",
    "sort_backward",
    "valid_spans",
    "without_initialization",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
