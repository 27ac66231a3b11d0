"""The mathematics: pure functions on tensors. No parameters, no text, no files.

f   [B, n, k]   what is written per token       C   [B, k, k]   the memory
q   [B, m, k]   queries                         α, β  [B, n]    gates
"""

from attar.ops.along import lookup_along
from attar.ops.bank import MemoryBank
from attar.ops.gram import encode
from attar.ops.lookups import lookup, ridge_solution, softmax_lookup
from attar.ops.packed import dequantize, pack, packed_lookup, packed_update, quantize, unpack
from attar.ops.reference import AffineGates, gated
from attar.ops.scan import encode_adaptive

__all__ = [
    "AffineGates",
    "MemoryBank",
    "dequantize",
    "encode",
    "encode_adaptive",
    "gated",
    "lookup",
    "lookup_along",
    "pack",
    "packed_lookup",
    "packed_update",
    "quantize",
    "ridge_solution",
    "softmax_lookup",
    "unpack",
]
