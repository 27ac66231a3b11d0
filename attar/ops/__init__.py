"""The mathematics: pure functions on tensors. No parameters, no text, no files.

f   [B, n, k]   what is written of each token       C   [B, k, k]   the memory
q   [B, m, k]   queries                             α, β  [B, n]    gates
"""

from attar.ops.bank import MemoryBank
from attar.ops.encode import encode, encode_adaptive, encode_gated
from attar.ops.gates import AffineGates
from attar.ops.lookup import lookup, softmax_lookup
from attar.ops.packed import (
    dequantize,
    pack,
    packed_lookup,
    packed_lookup_many,
    packed_update,
    quantize,
    unpack,
)

__all__ = [
    "AffineGates",
    "MemoryBank",
    "dequantize",
    "encode",
    "encode_adaptive",
    "encode_gated",
    "lookup",
    "pack",
    "packed_lookup",
    "packed_lookup_many",
    "packed_update",
    "quantize",
    "softmax_lookup",
    "unpack",
]
