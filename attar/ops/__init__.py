"""The mathematics: pure functions on tensors. No parameters, no text, no files.

f   [B, n, k]   what is written per token       C   [B, k, k]   the memory
q   [B, m, k]   queries                         α, β  [B, n]    gates
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.ops.bank import MemoryBank
    from attar.ops.checks import (
        Backend,
        Device,
        Dtype,
        Lengths,
        accumulation_dtype,
        check_backend,
        check_device,
        check_floats,
        check_shape,
        choose_backend,
        is_traced,
        length_mask,
        shape_of,
        token_counts,
    )
    from attar.ops.gram import encode, encode_gated
    from attar.ops.lookups import RIDGE, lookup, ridge_lookup, softmax_lookup
    from attar.ops.packed.fast_lookup import LINE, MORE, READ_ROWS, WRITTEN_ROWS, fetch, multiply_one
    from attar.ops.packed.lookup import packed_lookup, packed_lookup_many, packed_update
    from attar.ops.packed.products import COMPILED, KERNELS, LazyModule, look_up_at, product_in_use
    from attar.ops.packed.triangle import dequantize, pack, quantize, unpack
    from attar.ops.reference import AffineGates, gated, squash
    from attar.ops.scan import encode_adaptive
    from attar.ops.triton.gru import scan_gru

__all__ = [
    "COMPILED",
    "KERNELS",
    "LINE",
    "MORE",
    "READ_ROWS",
    "RIDGE",
    "WRITTEN_ROWS",
    "AffineGates",
    "Backend",
    "Device",
    "Dtype",
    "LazyModule",
    "Lengths",
    "MemoryBank",
    "accumulation_dtype",
    "check_backend",
    "check_device",
    "check_floats",
    "check_shape",
    "choose_backend",
    "dequantize",
    "encode",
    "encode_adaptive",
    "encode_gated",
    "fetch",
    "gated",
    "is_traced",
    "length_mask",
    "look_up_at",
    "lookup",
    "multiply_one",
    "pack",
    "packed_lookup",
    "packed_lookup_many",
    "packed_update",
    "product_in_use",
    "quantize",
    "ridge_lookup",
    "scan_gru",
    "shape_of",
    "softmax_lookup",
    "squash",
    "token_counts",
    "unpack",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
