"""The mathematics: pure functions on tensors. No parameters, no text, no files.

f   [B, n, k]   what is written of each token       C   [B, k, k]   the memory
q   [B, m, k]   queries                             α, β  [B, n]    gates
"""

from attar.ops.encode import encode, encode_adaptive, encode_gated
from attar.ops.gates import AffineGates
from attar.ops.lookup import lookup, softmax_lookup

__all__ = [
    "AffineGates",
    "encode",
    "encode_adaptive",
    "encode_gated",
    "lookup",
    "softmax_lookup",
]
