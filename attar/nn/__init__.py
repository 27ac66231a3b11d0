"""The mechanisms with their parameters, as torch.nn modules, and the networks that readers are made of."""

from attar.nn.mechanisms import attention
from attar.nn.mechanisms.adaptive import AdaptiveAttention
from attar.nn.mechanisms.base import Mechanism
from attar.nn.mechanisms.baselines import NoAttention, SoftmaxAttention
from attar.nn.mechanisms.keyed import KeyedAttention
from attar.nn.mechanisms.linear import DecayedAttention, GatedAttention, LinearAttention
from attar.nn.memories import Memories
from attar.nn.memory_attention import MemoryAttention
from attar.nn.phrases import PhraseNetwork
from attar.nn.transformer import Transformer

__all__ = [
    "AdaptiveAttention",
    "DecayedAttention",
    "GatedAttention",
    "KeyedAttention",
    "LinearAttention",
    "Mechanism",
    "Memories",
    "MemoryAttention",
    "NoAttention",
    "PhraseNetwork",
    "SoftmaxAttention",
    "Transformer",
    "attention",
]
