"""The gate f = σ(W h + b) ⊙ h of states too large for `gram_kernels` to gate on the chip.

One product and one pass over the states forwards, three products and one pass backwards. PyTorch's own operations
would make a dozen passes, and a training step spends more time launching them than running them.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024


def gate_states(
    h: Float[Tensor, "B n k"],
    weight: Float[Tensor, "k k"],
    bias: Float[Tensor, " k"],
    lengths: Int[Tensor, " B"] | None,
) -> Float[Tensor, "B n k"]:
    """The gated states, 0 behind each document's length, whatever lies there."""
    gated: Tensor = FusedGate.apply(h, weight, bias, lengths)
    return gated


class FusedGate(torch.autograd.Function):
    """The gate and its gradient; W h is made again for the gradient, not kept."""

    @staticmethod
    def forward(h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None) -> Tensor:
        """f."""
        states = h.contiguous()
        inputs, f = product(states, weight), torch.empty_like(states)
        if f.numel():
            gate_kernel[grid_of(f)](
                states,
                inputs,
                bias,
                lengths,
                f,
                f.numel(),
                *f.shape[1:],
                RAGGED=lengths is not None,
                BLOCK=BLOCK,
            )
        return f

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the inputs, which the caller holds anyway."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """With g = σ(z), z = W h + b: ∂z = ∂f ⊙ h ⊙ g (1 − g), ∂h = ∂f ⊙ g + Wᵀ ∂z."""
        h, weight, bias, lengths = ctx.saved_tensors
        states, k = h.contiguous(), h.shape[2]
        inputs = product(states, weight)
        grad_inputs, direct = torch.empty_like(states), torch.empty_like(states)
        # What lies in padding must not meet ∂z = 0 in a product: 0 · NaN would reach the gradient of W.
        read = states if lengths is None else torch.empty_like(states)
        if states.numel():
            gradient_kernel[grid_of(states)](
                *(states, inputs, bias, lengths, grad.contiguous(), grad_inputs, direct, read),
                *(states.numel(), *states.shape[1:]),
                RAGGED=lengths is not None,
                BLOCK=BLOCK,
            )
        flat = grad_inputs.view(-1, k)
        grad_h = torch.addmm(direct.view(-1, k), flat, weight.to(h.dtype)).view_as(h)
        grad_weight = (flat.mT @ read.view(-1, k)).to(weight.dtype)
        return grad_h, grad_weight, flat.sum(0, dtype=torch.float32).to(bias.dtype), None


def product(states: Float[Tensor, "B n k"], weight: Float[Tensor, "k k"]) -> Float[Tensor, "N k"]:
    """W h of every token."""
    return states.view(-1, states.shape[2]) @ weight.to(states.dtype).mT


def grid_of(states: Tensor) -> tuple[int]:
    """Programs that go over all numbers once."""
    return (triton.cdiv(states.numel(), BLOCK),)


# Documents of a batch have any length: kernels made for some lengths would be made again and again.
@triton.jit(do_not_specialize=["numbers", "n"])
def gate_kernel(h, inputs, bias, lengths, f, numbers, n, k, RAGGED: tl.constexpr, BLOCK: tl.constexpr):
    """f of one block of numbers."""
    at, live = places(lengths, numbers, n, k, RAGGED, BLOCK)
    z = tl.load(inputs + at, live, 0.0).to(tl.float32) + tl.load(bias + at % k, live, 0.0).to(tl.float32)
    states = tl.load(h + at, live, 0.0).to(tl.float32)
    tl.store(f + at, (tl.sigmoid(z) * states).to(f.dtype.element_ty), at < numbers)


@triton.jit(do_not_specialize=["numbers", "n"])
def gradient_kernel(
    h, inputs, bias, lengths, grad, grad_inputs, direct, read, numbers, n, k,
    RAGGED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """∂z, the part of ∂h that does not go through W, and h with 0 in padding, of one block of numbers."""
    at, live = places(lengths, numbers, n, k, RAGGED, BLOCK)
    z = tl.load(inputs + at, live, 0.0).to(tl.float32) + tl.load(bias + at % k, live, 0.0).to(tl.float32)
    states, y = tl.load(h + at, live, 0.0), tl.load(grad + at, live, 0.0).to(tl.float32)
    g = tl.sigmoid(z)
    through = y * states.to(tl.float32) * g * (1 - g)
    tl.store(grad_inputs + at, through.to(grad_inputs.dtype.element_ty), at < numbers)
    tl.store(direct + at, (y * g).to(direct.dtype.element_ty), at < numbers)
    if RAGGED:
        tl.store(read + at, states, at < numbers)


@triton.jit
def places(lengths, numbers, n, k, RAGGED: tl.constexpr, BLOCK: tl.constexpr):
    """The numbers of one program, and which of them belong to a token."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < numbers
    if RAGGED:
        token = at // k
        live = live & (token % n < tl.load(lengths + token // n, live, 0))
    return at, live
