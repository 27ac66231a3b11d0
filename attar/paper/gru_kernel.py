"""A GRU over sequences anywhere in one array of tokens, read in either direction, in one launch.

Documents read forward, and sentences read backward, are both such sequences. In forward, one kernel goes through the
tokens, with the state on the chip from a sequence's first token to its last. In backward, the gates of all tokens are
recomputed at once from the states, which are known, so that only a linear recurrence is left.

Products with the recurrent weights take float16 operands and float32 sums: a state is between −1 and 1, so that is as
exact as tf32, in half the space. Gradients are brought into float16's range by one common factor.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# The largest k whose recurrent weights fit into the registers of eight warps.
LARGEST = 128
# The fewest rows that tensor cores take. More would leave most of a GPU idle: a batch has a hundred sequences.
ROWS = 16
WARPS = 8


def scan_gru(
    gates: Tensor, weight: Tensor, bias: Tensor, initial: Tensor, starts: Tensor, lengths: Tensor, step: int
) -> Tensor:
    """The states `[N, k]` of all tokens, 0 for those of no sequence.

    `gates` `[N, 3k]` are the products of the inputs with their weights, with all biases added except the new gate's
    recurrent one, `bias` `[k]`; `weight` is `[3k, k]`. Sequence s of S starts from `initial[s]` and reads the tokens
    starts[s], starts[s] + step, …; no two share a token. It is fastest if neighbours have about the same length.
    """
    states: Tensor = FusedGRU.apply(gates, weight, bias, initial, starts, lengths, step)
    return states


class FusedGRU(torch.autograd.Function):
    @staticmethod
    def forward(
        gates: Tensor,
        weight: Tensor,
        bias: Tensor,
        initial: Tensor,
        starts: Tensor,
        lengths: Tensor,
        step: int,
    ) -> Tensor:
        sequences, k = initial.shape
        gates = gates.contiguous()
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

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the inputs and the states, and no gate."""
        *tensors, ctx.step = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂gates and ∂initial by the kernel, ∂weight and ∂bias from them by products over all tokens."""
        gates, weight, bias, initial, starts, lengths, hidden = ctx.saved_tensors
        k = hidden.shape[1]
        before = _states_before(hidden, initial, starts, lengths, ctx.step)
        recurrent = torch.nn.functional.linear(before, weight)
        recurrent[:, 2 * k :] += bias
        slopes = _slopes(gates.contiguous(), recurrent, before)
        sequences, largest = len(starts), grad.abs().amax().clamp(min=1e-30)
        grad_gates, grad_initial = grad.new_zeros(len(hidden), 3 * k), grad.new_zeros(sequences, k)
        if sequences:
            backward_kernel[(triton.cdiv(sequences, ROWS),)](
                *(grad.contiguous(), slopes, weight.to(torch.float16).contiguous(), largest),
                *(grad_gates, grad_initial, starts, lengths, sequences, k),
                STEP=ctx.step,
                ROWS=ROWS,
                K=max(16, triton.next_power_of_2(k)),
                num_warps=WARPS,
            )
        through = grad_gates[:, 2 * k :] * slopes[:, 4 * k :]
        grad_weight = torch.cat([grad_gates[:, : 2 * k].mT @ before, through.mT @ before])
        return grad_gates, grad_weight, through.sum(0), grad_initial, None, None, None


def _states_before(hidden: Tensor, initial: Tensor, starts: Tensor, lengths: Tensor, step: int) -> Tensor:
    """The state `[N, k]` before each token; no value is read back, so no launch waits."""
    count = len(hidden)
    # One row more: an empty sequence, which has no first token, writes its state there.
    before = hidden.new_empty(count + 1, hidden.shape[1])
    if step > 0:
        before[1:count] = hidden[:-1]
        before[:1] = 0
    else:
        before[: count - 1] = hidden[1:]
        before[count - 1 : count] = 0
    first = torch.where(lengths > 0, starts, count).long()
    return before.index_copy_(0, first, initial.to(before.dtype))[:count]


def _slopes(gates: Tensor, recurrent: Tensor, before: Tensor) -> Tensor:
    """The derivatives of gates with respect to states, `[N, 5k]`, from gates recomputed for all tokens at once.

    The slopes of the reset, update and new gates' inputs; then the update gate, by which the state's own
    gradient continues, and the reset gate, through which the new gate sees the state before.
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
    """σ(x), written so that the interpreter and the compiler do the same."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["sequences"])
def forward_kernel(
    gates, weight, bias, initial, hidden, starts, lengths, sequences, k,
    STEP: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """ROWS sequences from their first tokens to their last: h ← n + z (h − n)."""
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
    # Each step loads the gates of the next, which hides the latency of memory.
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
    # As in forward, each step loads what the next one needs.
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


@triton.jit(do_not_specialize=["count"])
def slopes_kernel(gates, recurrent, before, slopes, count, k, BLOCK: tl.constexpr):
    """∂(gate's input) / ∂h of every gate of one block of values."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
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
