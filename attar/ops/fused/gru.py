"""A GRU over sequences that lie anywhere in one array of tokens, read in either direction, in one launch.

Documents onward, and sentences backward, are both such sequences. Forwards, one kernel goes through the tokens;
backwards, the gates of all tokens are made again at once from the states, which are known, so that only a linear
recurrence is left to go through.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.fused import gru_kernels as kernels


def scan_gru(
    gates: Float[Tensor, "N three_k"],
    weight: Float[Tensor, "three_k k"],
    bias: Float[Tensor, " k"],
    initial: Float[Tensor, "S k"],
    starts: Int[Tensor, " S"],
    lengths: Int[Tensor, " S"],
    step: int,
) -> Float[Tensor, "N k"]:
    """The states of all tokens, 0 for those of no sequence.

    `gates` are the products of the inputs with their weights, all biases added but the new gate's recurrent one,
    `bias`. Sequence s reads the tokens starts[s], starts[s] + step, …; no two share a token. Sequences of about
    one length side by side take the least time.
    """
    states: Tensor = FusedGRU.apply(gates, weight, bias, initial, starts, lengths, step)
    return states


class FusedGRU(torch.autograd.Function):
    """The scan and its gradient."""

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
        """The states."""
        return kernels.run_forward(gates.contiguous(), weight, bias, initial, starts, lengths, step)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the inputs and the states, and no gate."""
        *tensors, ctx.step = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂gates and ∂initial by the kernel, ∂weight and ∂bias from them by products over all tokens."""
        gates, weight, bias, initial, starts, lengths, hidden = ctx.saved_tensors
        k = hidden.shape[1]
        before = states_before(hidden, initial, starts, lengths, ctx.step)
        recurrent = torch.nn.functional.linear(before, weight)
        recurrent[:, 2 * k :] += bias
        slopes = kernels.run_slopes(gates.contiguous(), recurrent, before)
        grad_gates, grad_initial = kernels.run_backward(grad, slopes, weight, starts, lengths, ctx.step)
        through = grad_gates[:, 2 * k :] * slopes[:, 4 * k :]
        grad_weight = torch.cat([grad_gates[:, : 2 * k].mT @ before, through.mT @ before])
        return grad_gates, grad_weight, through.sum(0), grad_initial, None, None, None


def states_before(
    hidden: Float[Tensor, "N k"],
    initial: Float[Tensor, "S k"],
    starts: Int[Tensor, " S"],
    lengths: Int[Tensor, " S"],
    step: int,
) -> Float[Tensor, "N k"]:
    """The state that each token's sequence was in before it; no value is read back, so no launch waits."""
    count = len(hidden)
    # One row more: an empty sequence has no first token, and writes its state there.
    before = hidden.new_empty(count + 1, hidden.shape[1])
    if step > 0:
        before[1:count] = hidden[:-1]
        before[:1] = 0
    else:
        before[: count - 1] = hidden[1:]
        before[count - 1 : count] = 0
    first = torch.where(lengths > 0, starts, count).long()
    return before.index_copy_(0, first, initial.to(before.dtype))[:count]
