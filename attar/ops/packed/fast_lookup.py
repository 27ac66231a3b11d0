"""The fast twin of BLAS's packed product: C q from triangles at any address, compiled by numba for this processor.

Four rows of the triangle are multiplied at a time, sixteen columns in one vector. Each value is read once and
used twice, for its own row and, C being symmetric, for the row of its column:

    R_i ← R_i + Σ_j C_ij q_j        R_j ← R_j + C_ij q_i        j < i

Values are converted to float32 as they are read, so that float16 takes half the bytes and int8 a quarter. Outside of
the cache the bytes are the cost: while one document is multiplied, the next one is prefetched.

Gain, one CPU thread: 2.4 times for 1,000 lookups at k = 100, 2.3 times for 5,000 at k = 128 (`packed_lookup_many`);
1.5 to 1.9 times for one (`packed_lookup`, k = 100 and 128, in and out of the cache).

Importing this compiles it, or loads numba's cache; `products.LazyModule` decides when. Numba compares only the date of
this file with its cache, so all that is compiled together is in this file (except the store's).
"""

from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

ROWS, LANES = 4, 16
LINE = 64
# The workspace holds a query and a readout, each padded to whole vectors, and starts on a cache line.
MORE = 3 * LANES
# Bytes prefetched ahead within one document: 1,024 took 0.3 µs more, 2,048 0.1 (k = 100, 2.2 µs).
AHEAD = 4096
# int8 means s_i s_j Q_ij / 127 (see `triangle`).
LEVELS = np.float32(127)

INT, LONG, REAL = ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR, COUNTS = ir.VectorType(REAL, LANES), ir.VectorType(INT, LANES)
# Sums may be reordered and fused with products. NaN stays NaN.
LOOSE = ("contract", "reassoc", "nsz")


def in_every_lane(builder: Any, number: Any, kind: Any) -> Any:
    """A vector of one number."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, INT(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(COUNTS, [0] * LANES))


def first_lanes(builder: Any, count: Any) -> Any:
    """A mask of the first `count` lanes."""
    places = ir.Constant(COUNTS, list(range(LANES)))
    return builder.icmp_signed("<", places, in_every_lane(builder, builder.trunc(count, INT), COUNTS))


def stored_at(builder: Any, address: Any, width: int, lanes: Any = None) -> Any:
    """Sixteen values of `width` bytes at any address, in float32; outside of `lanes` 0, and not read."""
    kind = ir.VectorType(ir.IntType(8 * width), LANES)
    pointer = builder.inttoptr(address, kind.as_pointer())
    if lanes is None:
        read = builder.load(pointer, align=1)
    else:
        arguments = [pointer, INT(1), lanes, ir.Constant(kind, None)]
        read = call(builder, f"llvm.masked.load.v{LANES}i{8 * width}.p0", kind, arguments)
    if width == 4:
        return builder.bitcast(read, VECTOR)
    if width == 2:
        return builder.fpext(builder.bitcast(read, ir.VectorType(ir.HalfType(), LANES)), VECTOR)
    return builder.sitofp(read, VECTOR)


def call(builder: Any, name: str, result: Any, arguments: list[Any], loose: tuple[str, ...] = ()) -> Any:
    """Call an LLVM intrinsic."""
    kinds = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kinds, name)
    return builder.call(function, arguments, fastmath=loose)


def add_product(builder: Any, x: Any, y: Any, total: Any) -> Any:
    """total + x y."""
    return builder.fadd(builder.fmul(x, y, flags=LOOSE), total, flags=LOOSE)


def four_rows_of(width: int) -> Any:
    """The inner loop for values of `width` bytes."""

    @no_type_check
    def add_four_rows(context, row, i, rows, q, R):
        """Add to R the products of rows i to i + 3 of the triangle, of which `rows` exist, the first at `row`.

        All are addresses except i, a multiple of four, and `rows`; q and R are padded to whole vectors, q with zeros.
        """

        def generate(context, builder, signature, given):
            row, i, rows, q, R = given

            def vector(start, place):
                address = builder.add(start, builder.mul(place, LONG(4)))
                return builder.inttoptr(address, VECTOR.as_pointer())

            def real(start, place):
                return builder.bitcast(vector(start, place), REAL.as_pointer())

            # A missing row is the first row again, with a query of 0.
            starts, is_there = [row], [builder.icmp_signed("<", LONG(r), rows) for r in range(ROWS)]
            for r in range(1, ROWS):
                following = builder.add(starts[-1], builder.mul(builder.add(i, LONG(r)), LONG(width)))
                starts.append(builder.select(is_there[r], following, row))
            own = [builder.load(real(q, builder.add(i, LONG(r)))) for r in range(ROWS)]
            own_lanes = [in_every_lane(builder, each, VECTOR) for each in own]
            sums = [cgutils.alloca_once_value(builder, ir.Constant(VECTOR, None)) for _ in starts]

            def multiply(column, in_rows, in_columns):
                queries = builder.load(vector(q, column), align=LINE)
                readouts = builder.load(vector(R, column), align=LINE)
                for r in range(ROWS):
                    builder.store(add_product(builder, in_rows[r], queries, builder.load(sums[r])), sums[r])
                    readouts = add_product(builder, in_columns[r], own_lanes[r], readouts)
                builder.store(readouts, vector(R, column), align=LINE)

            def stored(column, lanes):
                ats = [builder.add(start, builder.mul(column, LONG(width))) for start in starts]
                return [stored_at(builder, at, width, each) for at, each in zip(ats, lanes, strict=True)]

            blocks = builder.sdiv(i, LONG(LANES))
            with cgutils.for_range(builder, blocks, intp=LONG) as loop:
                column = builder.mul(loop.index, LONG(LANES))
                C = stored(column, [None] * ROWS)
                multiply(column, C, C)
            # The diagonal block, whose values count for their rows only.
            column = builder.mul(blocks, LONG(LANES))
            before = [builder.add(builder.sub(i, column), LONG(r)) for r in range(ROWS)]
            up_to = [
                builder.select(there, builder.add(count, LONG(1)), LONG(0))
                for there, count in zip(is_there, before, strict=True)
            ]
            C = stored(column, [first_lanes(builder, count) for count in up_to])
            zeros = ir.Constant(VECTOR, None)
            below = [
                builder.select(first_lanes(builder, n), c, zeros) for n, c in zip(before, C, strict=True)
            ]
            multiply(column, C, below)
            for r in range(ROWS):
                at = real(R, builder.add(i, LONG(r)))
                arguments = [builder.load(at), builder.load(sums[r])]
                name = f"llvm.vector.reduce.fadd.v{LANES}f32"
                builder.store(call(builder, name, REAL, arguments, LOOSE), at)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return intrinsic(add_four_rows)


@intrinsic
@no_type_check
def fetch(context, address):
    """Prefetch the cache line at an address; invalid addresses do no harm."""

    def generate(context, builder, signature, given):
        pointer = builder.inttoptr(given[0], ir.IntType(8).as_pointer())
        call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, INT(0), INT(3), INT(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
@no_type_check
def scale_at(context, address):
    """The float32 at an address, aligned or not."""

    def generate(context, builder, signature, given):
        return builder.load(builder.inttoptr(given[0], REAL.as_pointer()), align=1)

    return types.float32(types.int64), generate


four_of_float32, four_of_float16, four_of_int8 = (four_rows_of(width) for width in (4, 2, 1))


@njit
@no_type_check
def multiply_one(C, scales, width, k, x, y, at, space, following):
    """Write C q to y, where q is x, both from `at` on; C is the address of a triangle of values of `width` bytes.

    `scales` is the address of the int8 scales, 0 for none; `space` a workspace; `following` the next C, 0 for none.
    """
    padded = (k + LANES - 1) // LANES * LANES
    start = space.ctypes.data
    first = (-start % LINE) // 4
    last = first + padded
    for j in range(k):
        space[first + j] = x[at + j] * scale_at(scales + 4 * j) if scales else x[at + j]
    space[first + k : last] = 0
    space[last : last + padded] = 0
    q, R = start + 4 * first, start + 4 * last
    row = C
    end = C + width * (k * (k + 1) // 2)
    for i in range(0, k, ROWS):
        rows = min(ROWS, k - i)
        next_row = row + width * (rows * i + rows * (rows + 1) // 2)
        for line in range(row, next_row, LINE):
            fetch(line - C + following if following else min(line + AHEAD, end))
        if width == 4:
            four_of_float32(row, i, rows, q, R)
        elif width == 2:
            four_of_float16(row, i, rows, q, R)
        else:
            four_of_int8(row, i, rows, q, R)
        row = next_row
    for j in range(k):
        R_j = space[last + j]
        y[at + j] = R_j * scale_at(scales + 4 * j) / LEVELS if scales else R_j


READ, WRITTEN = types.Array(types.float32, 1, "C", readonly=True), types.float32[::1]
READ_ROWS, WRITTEN_ROWS = types.Array(types.float32, 2, "C", readonly=True), types.float32[:, ::1]
EACH = types.void(types.int64[:, ::1], READ_ROWS, WRITTEN_ROWS)


@njit(types.void(READ, READ, WRITTEN), cache=True)
@no_type_check
def look_up_array(C, x, y):
    """Write C q to y `[k]`, where q is x `[k]`, for a triangle that is an array of float32."""
    multiply_one(C.ctypes.data, 0, 4, x.size, x, y, 0, np.empty(2 * x.size + MORE, np.float32), 0)


@njit(EACH, cache=True)
@no_type_check
def look_up_each(places, x, y):
    """Write C q to each row of y `[m, k]`, where q is the same row of x `[m, k]`.

    Each row of places `[m, 3]` is the address of a triangle, that of its int8 scales or 0, and the bytes per value,
    4, 2 or 1; 0 skips a row.
    """
    m, k = x.shape
    space = np.empty(2 * k + MORE, np.float32)
    for d in range(m):
        C, scales, width = places[d]
        following = places[d + 1, 0] if d + 1 < m else 0
        if width:
            multiply_one(C, scales, width, k, x.reshape(-1), y.reshape(-1), d * k, space, following)


@njit(EACH, cache=True, nogil=True)
@no_type_check
def look_up_each_released(places, x, y):
    """`look_up_each` without the GIL: `products` says when that pays."""
    look_up_each(places, x, y)
