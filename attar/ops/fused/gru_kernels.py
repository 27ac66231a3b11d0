"""The kernels of a GRU over many sequences: the state stays on the chip from a sequence's first token to its last.

Products with the recurrent weights take float16 operands and float32 sums: a state lies between −1 and 1, so that
is as exact as tf32, at half the room. Gradients are brought into float16's range by one factor for all of them.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

# A tile of recurrent weights fits the registers of eight warps up to here.
LARGEST = 128
# The fewest rows that tensor cores take. More would leave most of a GPU idle: a batch has a hundred sequences.
ROWS = 16
WARPS = 8


def run_forward(
    gates: Float[Tensor, "N three_k"],
    weight: Float[Tensor, "three_k k"],
    bias: Float[Tensor, " k"],
    initial: Float[Tensor, "S k"],
    starts: Int[Tensor, " S"],
    lengths: Int[Tensor, " S"],
    step: int,
) -> Float[Tensor, "N k"]:
    """The states of all tokens, 0 for those of no sequence."""
    sequences, k = initial.shape
    hidden = gates.new_zeros(gates.shape[0], k)
    if sequences:
        forward_kernel[(triton.cdiv(sequences, ROWS),)](
            *(gates, weight.to(torch.float16).contiguous(), bias.contiguous(), initial.contiguous()),
            *(hidden, starts, lengths, sequences, k),
            STEP=step,
            ROWS=ROWS,
            K=max(16, triton.next_power_of_2(k)),
            num_warps=WARPS,
        )
    return hidden


def run_backward(
    grad: Float[Tensor, "N k"],
    slopes: Float[Tensor, "N five_k"],
    weight: Float[Tensor, "three_k k"],
    starts: Int[Tensor, " S"],
    lengths: Int[Tensor, " S"],
    step: int,
) -> tuple[Float[Tensor, "N three_k"], Float[Tensor, "S k"]]:
    """The gradients of the gates' inputs, 0 for tokens of no sequence, and of the initial states."""
    sequences, k = len(starts), grad.shape[1]
    grad_gates = grad.new_zeros(grad.shape[0], 3 * k)
    grad_initial = grad.new_zeros(sequences, k)
    if sequences:
        largest = grad.abs().amax().clamp(min=1e-30)
        backward_kernel[(triton.cdiv(sequences, ROWS),)](
            *(grad.contiguous(), slopes, weight.to(torch.float16).contiguous(), largest),
            *(grad_gates, grad_initial, starts, lengths, sequences, k),
            STEP=step,
            ROWS=ROWS,
            K=max(16, triton.next_power_of_2(k)),
            num_warps=WARPS,
        )
    return grad_gates, grad_initial


def run_slopes(
    gates: Float[Tensor, "N three_k"], recurrent: Float[Tensor, "N three_k"], before: Float[Tensor, "N k"]
) -> Float[Tensor, "N five_k"]:
    """What a state's gradient does to its gates, from gates made again for all tokens at once.

    The slopes of the reset, update and new gates' inputs; then the update gate, by which the state's own
    gradient goes on, and the reset gate, through which the new gate sees the state before.
    """
    count, k = before.shape
    slopes = gates.new_empty(count, 5 * k)
    if count:
        block = 1024
        slopes_kernel[(triton.cdiv(count * k, block),)](
            gates, recurrent, before.contiguous(), slopes, count * k, k, BLOCK=block
        )
    return slopes


@triton.jit
def sigmoid_of(x):
    """σ(x), made so that the interpreter and the compiler do the same."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["sequences"])
def forward_kernel(
    gates, weight, bias, initial, hidden, starts, lengths, sequences, k,
    STEP: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """A few sequences from their first tokens to their last: h ← n + z (h − n)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < sequences
    start = tl.load(starts + row, inside, 0).to(tl.int64)
    length = tl.load(lengths + row, inside, 0)
    i, j = tl.arange(0, K)[:, None], tl.arange(0, K)[None, :]
    square = (i < k) & (j < k)
    # W transposed: what state i gives to gate j.
    w_r = tl.load(weight + j * k + i, square, 0.0)
    w_z = tl.load(weight + (k + j) * k + i, square, 0.0)
    w_n = tl.load(weight + (2 * k + j) * k + i, square, 0.0)
    b_n = tl.load(bias + j, j < k, 0.0)
    h = tl.load(initial + row[:, None] * k + j, inside[:, None] & (j < k), 0.0)
    steps = tl.max(length, 0)
    # Each step's gates are asked for one step ahead, so that their way from memory is hidden.
    live = (length > 0)[:, None] & (j < k)
    at = gates + start[:, None] * (3 * k) + j
    g_r, g_z, g_n = tl.load(at, live, 0.0), tl.load(at + k, live, 0.0), tl.load(at + 2 * k, live, 0.0)
    for t in tl.range(0, steps):
        later = (t + 1 < length)[:, None] & (j < k)
        ahead = gates + (start + (t + 1) * STEP)[:, None] * (3 * k) + j
        next_r = tl.load(ahead, later, 0.0)
        next_z = tl.load(ahead + k, later, 0.0)
        next_n = tl.load(ahead + 2 * k, later, 0.0)
        operand = h.to(tl.float16)
        r = sigmoid_of(g_r + tl.dot(operand, w_r))
        z = sigmoid_of(g_z + tl.dot(operand, w_z))
        n = 2.0 * sigmoid_of(2.0 * (g_n + r * (tl.dot(operand, w_n) + b_n))) - 1.0
        live = (t < length)[:, None] & (j < k)
        h = tl.where(live, n + z * (h - n), h)
        tl.store(hidden + (start + t * STEP)[:, None] * k + j, h, live)
        g_r, g_z, g_n = next_r, next_z, next_n


@triton.jit(do_not_specialize=["sequences"])
def backward_kernel(
    grad, slopes, weight, largest, grad_gates, grad_initial, starts, lengths, sequences, k,
    STEP: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The same sequences from their last tokens to their first: every step is linear in ∂h."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < sequences
    start = tl.load(starts + row, inside, 0).to(tl.int64)
    length = tl.load(lengths + row, inside, 0)
    i, j = tl.arange(0, K)[:, None], tl.arange(0, K)[None, :]
    square = (i < k) & (j < k)
    # W as it is: what gate i gives back to state j.
    w_r = tl.load(weight + i * k + j, square, 0.0)
    w_z = tl.load(weight + (k + i) * k + j, square, 0.0)
    w_n = tl.load(weight + (2 * k + i) * k + j, square, 0.0)
    unit = tl.load(largest)
    dh = tl.zeros([ROWS, K], tl.float32)
    steps = tl.max(length, 0)
    # As forwards, each step asks for what the next one needs.
    live = ((steps > 0) & (steps - 1 < length))[:, None] & (j < k)
    token = (start + (steps - 1) * STEP)[:, None]
    at = slopes + token * (5 * k) + j
    g = tl.load(grad + token * k + j, live, 0.0)
    s_r, s_z, s_n = tl.load(at, live, 0.0), tl.load(at + k, live, 0.0), tl.load(at + 2 * k, live, 0.0)
    z, r = tl.load(at + 3 * k, live, 0.0), tl.load(at + 4 * k, live, 0.0)
    for back in tl.range(0, steps):
        t = steps - 1 - back
        earlier = ((t > 0) & (t - 1 < length))[:, None] & (j < k)
        ahead = (start + (t - 1) * STEP)[:, None]
        at = slopes + ahead * (5 * k) + j
        next_g = tl.load(grad + ahead * k + j, earlier, 0.0)
        next_r, next_z = tl.load(at, earlier, 0.0), tl.load(at + k, earlier, 0.0)
        next_n = tl.load(at + 2 * k, earlier, 0.0)
        later_z, later_r = tl.load(at + 3 * k, earlier, 0.0), tl.load(at + 4 * k, earlier, 0.0)
        dh += g / unit
        p_r, p_z, p_n = dh * s_r, dh * s_z, dh * s_n
        live = (t < length)[:, None] & (j < k)
        out = grad_gates + (start + t * STEP)[:, None] * (3 * k) + j
        tl.store(out, p_r * unit, live)
        tl.store(out + k, p_z * unit, live)
        # The new gate's input is reached past the reset gate, its recurrent part through it.
        tl.store(out + 2 * k, p_n * unit, live)
        through = tl.dot(p_r.to(tl.float16), w_r)
        through = tl.dot(p_z.to(tl.float16), w_z, through)
        through = tl.dot((p_n * r).to(tl.float16), w_n, through)
        dh = tl.where(live, dh * z + through, dh)
        g, s_r, s_z, s_n, z, r = next_g, next_r, next_z, next_n, later_z, later_r
    tl.store(grad_initial + row[:, None] * k + j, dh * unit, inside[:, None] & (j < k))


@triton.jit(do_not_specialize=["numbers"])
def slopes_kernel(gates, recurrent, before, slopes, numbers, k, BLOCK: tl.constexpr):
    """∂(gate's input) / ∂h of every gate, token by token, all at once."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < numbers
    token, j = at // k, at % k
    three = token * (3 * k) + j
    h = tl.load(before + at, inside, 0.0)
    r = sigmoid_of(tl.load(gates + three, inside, 0.0) + tl.load(recurrent + three, inside, 0.0))
    z = sigmoid_of(tl.load(gates + three + k, inside, 0.0) + tl.load(recurrent + three + k, inside, 0.0))
    from_state = tl.load(recurrent + three + 2 * k, inside, 0.0)
    n = 2.0 * sigmoid_of(2.0 * (tl.load(gates + three + 2 * k, inside, 0.0) + r * from_state)) - 1.0
    of_n = (1.0 - z) * (1.0 - n * n)
    out = slopes + token * (5 * k) + j
    tl.store(out, of_n * from_state * r * (1.0 - r), inside)
    tl.store(out + k, (h - n) * z * (1.0 - z), inside)
    tl.store(out + 2 * k, of_n, inside)
    tl.store(out + 3 * k, z, inside)
    tl.store(out + 4 * k, r, inside)
