"""The second-order unit on a GPU, forward and backward: one program per document, all matrices in registers.

Backward needs no memory of earlier tokens: C_{t-1} = C_t − h_t h_tᵀ. With S = G + Gᵀ of G = ∂L/∂C and the reading
s = φ C h, φ = 1 / √(1 + mean (C h)²), a step back from h' to h is

    ∂h' += S h'        C −= h' h'ᵀ        d = φ (∂s − s mean(s ∂s))        ∂h += C d        S += d hᵀ + h dᵀ

Gradients of weights are products over all tokens, and computed outside.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# Backward holds eight matrices of 64 × 64: 128 registers in each of 256 threads.
WARPS = {"num_warps": 8, "maxnreg": 255}
SAVED = 5  # vectors per token: the gates, the new state, what is held of the old one, the reading


@triton.jit
def load_weights(weights, i, k):
    """The matrices of the three gates, [in, out]."""
    cell, square = i[:, None] * k + i[None, :], (i[:, None] < k) & (i[None, :] < k)
    size = k * k
    reset, update = tl.load(weights + cell, square, 0.0), tl.load(weights + size + cell, square, 0.0)
    return reset, update, tl.load(weights + 2 * size + cell, square, 0.0)


@triton.jit
def forward_kernel(inputs, of_state, bias, of_reading, states, last, saved, phi, n, k, K: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    real = i < k
    H0, H1, H2 = load_weights(of_state, i, k)
    R0, R1, R2 = load_weights(of_reading, i, k)
    b0, b1 = tl.load(bias + i, real, 0.0), tl.load(bias + k + i, real, 0.0)
    b2 = tl.load(bias + 2 * k + i, real, 0.0)
    C, h = tl.zeros([K, K], tl.float32), tl.zeros([K], tl.float32)
    for t in range(n):
        token = b * n + t
        row = inputs + token * 3 * k + i
        x0, x1 = tl.load(row, real, 0.0), tl.load(row + k, real, 0.0)
        x2 = tl.load(row + 2 * k, real, 0.0)
        read = tl.sum(C * h[None, :], 1)
        squashing = tl.rsqrt(1 + tl.sum(read * read, 0) / k)
        read = read * squashing
        rows, reading = h[:, None], read[:, None]
        reset = tl.sigmoid(x0 + b0 + tl.sum(H0 * rows + R0 * reading, 0))
        update = tl.sigmoid(x1 + b1 + tl.sum(H1 * rows + R1 * reading, 0))
        held = b2 + tl.sum(H2 * rows, 0)
        new = 2 * tl.sigmoid(2 * (x2 + tl.sum(R2 * reading, 0) + reset * held)) - 1
        h = new + update * (h - new)
        C += h[:, None] * h[None, :]
        tl.store(states + token * k + i, h, real)
        place = saved + token * 5 * k + i
        tl.store(place, reset, real)
        tl.store(place + k, update, real)
        tl.store(place + 2 * k, new, real)
        tl.store(place + 3 * k, held, real)
        tl.store(place + 4 * k, read, real)
        tl.store(phi + token, squashing)
    square = (i[:, None] < k) & (i[None, :] < k)
    tl.store(last + b * k * k + i[:, None] * k + i[None, :], C, square)


@triton.jit
def backward_kernel(
    grad, of_state, of_reading, states, last, saved, phi, entering, staying, n, k, K: tl.constexpr
):  # fmt: skip
    """`entering` and `staying`: the gradients of the gates' two sums; only the last third differs."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    real = i < k
    H0, H1, H2 = load_weights(of_state, i, k)
    R0, R1, R2 = load_weights(of_reading, i, k)
    square = (i[:, None] < k) & (i[None, :] < k)
    C = tl.load(last + b * k * k + i[:, None] * k + i[None, :], square, 0.0)
    S, carried = tl.zeros([K, K], tl.float32), tl.zeros([K], tl.float32)
    h = tl.load(states + (b * n + n - 1) * k + i, real, 0.0)
    for back in range(n):
        t = n - 1 - back
        token = b * n + t
        before = tl.load(states + (token - 1) * k + i, real & (t > 0), 0.0)
        place = saved + token * 5 * k + i
        reset, update = tl.load(place, real, 0.0), tl.load(place + k, real, 0.0)
        new, held = tl.load(place + 2 * k, real, 0.0), tl.load(place + 3 * k, real, 0.0)
        read, squashing = tl.load(place + 4 * k, real, 0.0), tl.load(phi + token)
        of_h = carried + tl.load(grad + token * k + i, real, 0.0) + tl.sum(S * h[None, :], 1)
        of_new = of_h * (1 - update) * (1 - new * new)
        of_held = of_new * reset
        of_reset = of_new * held * reset * (1 - reset)
        of_update = of_h * (before - new) * update * (1 - update)
        place = entering + token * 3 * k + i
        tl.store(place, of_reset, real)
        tl.store(place + k, of_update, real)
        tl.store(place + 2 * k, of_new, real)
        tl.store(staying + token * k + i, of_held, real)
        d0, d1 = of_reset[None, :], of_update[None, :]
        of_read = tl.sum(R0 * d0 + R1 * d1 + R2 * of_new[None, :], 1)
        d = squashing * (of_read - read * (tl.sum(read * of_read, 0) / k))
        C -= h[:, None] * h[None, :]
        through = tl.sum(H0 * d0 + H1 * d1 + H2 * of_held[None, :] + C * d[None, :], 1)
        carried = of_h * update + through
        S += d[:, None] * before[None, :] + before[:, None] * d[None, :]
        h = before


class FusedUnit(torch.autograd.Function):
    """All states, from the inputs' part of the gates' sums."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, of_state: Tensor, bias: Tensor, of_reading: Tensor) -> Tensor:
        (batch, n, _), k = inputs.shape, of_state.shape[1]
        transposed = [weight.view(3, k, k).mT.contiguous() for weight in (of_state, of_reading)]
        states, last = inputs.new_empty(batch, n, k), inputs.new_empty(batch, k, k)
        saved, phi = inputs.new_empty(batch, n, SAVED, k), inputs.new_empty(batch, n)
        size = int(triton.next_power_of_2(k))
        forward_kernel[(batch,)](
            inputs.contiguous(), transposed[0], bias, transposed[1], *(states, last, saved, phi),
            n, k, K=size, **WARPS,
        )  # fmt: skip
        ctx.save_for_backward(*transposed, states, last, saved, phi)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        of_state, of_reading, states, last, saved, phi = ctx.saved_tensors
        batch, n, k = states.shape
        entering, held = states.new_empty(batch, n, 3 * k), torch.empty_like(states)
        size = int(triton.next_power_of_2(k))
        backward_kernel[(batch,)](
            grad.contiguous(), of_state, of_reading, *(states, last, saved, phi),
            *(entering, held, n, k), K=size, **WARPS,
        )  # fmt: skip
        staying = torch.cat([entering[..., : 2 * k], held], -1)
        before = torch.nn.functional.pad(states, (0, 0, 1, 0))[:, :-1]
        of_weights = (torch.einsum("bno,bni->oi", staying, before), staying.sum((0, 1)))
        return entering, *of_weights, torch.einsum("bno,bni->oi", entering, saved[:, :, 4])
