"""The mathematics: pure functions on tensors. No parameters, no text, no files.

f   [B, n, k]   what is written of each token       C   [B, k, k]   the memory
q   [B, m, k]   queries                             α, β  [B, n]    gates
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.ops.backends import (
        BACKENDS,
        choose_backend,
    )
    from attar.ops.bank import (
        MemoryBank,
    )
    from attar.ops.encoding import (
        Backend,
        encode,
        encode_adaptive,
        encode_gated,
        gated,
    )
    from attar.ops.fused.gru import (
        scan_gru,
    )
    from attar.ops.gates import (
        AffineGates,
        squash,
    )
    from attar.ops.lookups import (
        lookup,
        softmax_lookup,
    )
    from attar.ops.packed.access import (
        packed_lookup,
        packed_lookup_many,
        packed_update,
    )
    from attar.ops.packed.blas import (
        KERNELS,
    )
    from attar.ops.packed.compiled import (
        LINE,
        MORE,
        READ_ROWS,
        WRITTEN_ROWS,
        fetch,
        multiply_one,
    )
    from attar.ops.packed.int8 import (
        dequantize,
        quantize,
    )
    from attar.ops.packed.later import (
        Later,
    )
    from attar.ops.packed.products import (
        COMPILED,
        look_up_at,
        product_in_use,
    )
    from attar.ops.packed.triangle import (
        pack,
        unpack,
    )

__all__ = [
    "BACKENDS",
    "COMPILED",
    "KERNELS",
    "LINE",
    "MORE",
    "READ_ROWS",
    "WRITTEN_ROWS",
    "AffineGates",
    "Backend",
    "Later",
    "MemoryBank",
    "choose_backend",
    "dequantize",
    "encode",
    "encode_adaptive",
    "encode_gated",
    "fetch",
    "gated",
    "look_up_at",
    "lookup",
    "multiply_one",
    "pack",
    "packed_lookup",
    "packed_lookup_many",
    "packed_update",
    "product_in_use",
    "quantize",
    "scan_gru",
    "softmax_lookup",
    "squash",
    "unpack",
]

_MODULES = {
    "AffineGates": "attar.ops.gates",
    "BACKENDS": "attar.ops.backends",
    "Backend": "attar.ops.encoding",
    "COMPILED": "attar.ops.packed.products",
    "KERNELS": "attar.ops.packed.blas",
    "LINE": "attar.ops.packed.compiled",
    "Later": "attar.ops.packed.later",
    "MORE": "attar.ops.packed.compiled",
    "MemoryBank": "attar.ops.bank",
    "READ_ROWS": "attar.ops.packed.compiled",
    "WRITTEN_ROWS": "attar.ops.packed.compiled",
    "choose_backend": "attar.ops.backends",
    "dequantize": "attar.ops.packed.int8",
    "encode": "attar.ops.encoding",
    "encode_adaptive": "attar.ops.encoding",
    "encode_gated": "attar.ops.encoding",
    "fetch": "attar.ops.packed.compiled",
    "gated": "attar.ops.encoding",
    "look_up_at": "attar.ops.packed.products",
    "lookup": "attar.ops.lookups",
    "multiply_one": "attar.ops.packed.compiled",
    "pack": "attar.ops.packed.triangle",
    "packed_lookup": "attar.ops.packed.access",
    "packed_lookup_many": "attar.ops.packed.access",
    "packed_update": "attar.ops.packed.access",
    "product_in_use": "attar.ops.packed.products",
    "quantize": "attar.ops.packed.int8",
    "scan_gru": "attar.ops.fused.gru",
    "softmax_lookup": "attar.ops.lookups",
    "squash": "attar.ops.gates",
    "unpack": "attar.ops.packed.triangle",
}
__getattr__ = lazy_names(__name__, _MODULES)
