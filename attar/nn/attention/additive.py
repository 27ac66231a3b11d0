"""Mechanisms that forget nothing (α = β = 1): C is a sum over tokens, so texts read apart can be merged."""

from jaxtyping import Float
from torch import Tensor, nn

from attar.nn.attention.mechanism import MatrixMechanism, Scale, add_tokens
from attar.nn.attention.memories import Memories
from attar.ops import Backend, checks, encode, encode_gated


class LinearAttention(MatrixMechanism):
    """C = HᵀH, the paper's section 3. It has no parameters.

    >>> import torch
    >>> linear = LinearAttention(2)
    >>> memories = linear.encode(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]))
    >>> linear.lookup(memories, torch.tensor([[[1.0, 0.0]]])).tolist()
    [[[1.0, 2.0]]]
    """

    name = "linear"

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        initial: Float[Tensor, "B k k"] | None,
    ) -> Float[Tensor, "B k k"]:
        """Σ h hᵀ."""
        return encode(hidden, lengths=lengths, initial=initial, backend=self.backend)

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum: two texts read apart are one text."""
        tokens = add_tokens(earlier, later.tokens)
        checks.check_shape("memories.state", earlier.state, tuple(later.state.shape), "one memory a document")
        return Memories(earlier.state + later.state, tokens)


class GatedAttention(LinearAttention):
    """C = Σ f fᵀ with f = σ(W h + b) ⊙ h, the paper's experiment (section 5).

    `gate_bias` is where b starts: at 0 every gate is half open, and learns fastest.

    >>> import torch
    >>> gated = GatedAttention(1)
    >>> gated.load_state_dict({"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1)})
    <All keys matched successfully>
    >>> gated.encode(torch.tensor([[[2.0]]])).state.tolist()
    [[[1.0]]]
    """

    name = "gated"

    def __init__(
        self, size: int, *, gate_bias: float = 0.0, scale: Scale = None, backend: Backend = "auto"
    ) -> None:
        super().__init__(size, scale=scale, backend=backend)
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, gate_bias)

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        initial: Float[Tensor, "B k k"] | None,
    ) -> Float[Tensor, "B k k"]:
        """Σ f fᵀ."""
        weight, bias = self.gate.weight, self.gate.bias
        return encode_gated(hidden, weight, bias, lengths=lengths, initial=initial, backend=self.backend)
