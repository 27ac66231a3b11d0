"""SpanNetwork: reads a question together with a text, and says where the answer starts and ends, if it is there."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.nn.transformer import Transformer


class SpanNetwork(nn.Module):
    """An encoder of `[CLS] question [SEP] text [SEP]`; two scores per token, and one at [CLS] for the whole.

    >>> import torch
    >>> from attar.options import TransformerShape
    >>> shape = TransformerShape(vocabulary=50, size=8, layers=1, heads=2, feedforward=16)
    >>> inside = torch.tensor([[False, False, False, True, True, False]])
    >>> ids = torch.tensor([[1, 7, 2, 8, 9, 2]])
    >>> scores, present = SpanNetwork(Transformer(shape))(ids, inside | True, inside.long(), inside)
    >>> scores.isfinite().sum(-1).tolist(), present.shape
    ([[2, 2]], torch.Size([1]))
    """

    def __init__(self, encoder: Transformer) -> None:
        super().__init__()
        self.encoder = encoder
        self.ends = nn.Linear(encoder.shape.size, 2)
        self.present = nn.Linear(encoder.shape.size, 1)

    def forward(
        self,
        ids: Int[Tensor, "Q n"],
        mask: Bool[Tensor, "Q n"],
        types: Int[Tensor, "Q n"],
        inside: Bool[Tensor, "Q n"],
    ) -> tuple[Float[Tensor, "Q 2 n"], Float[Tensor, " Q"]]:
        """Start and end scores, -inf where `inside` is false, and the log-odds that the text has the answer.

        `mask` is true at tokens and false in padding, `inside` is true at the text.
        """
        hidden = self.encoder(ids, mask, types)
        scores: Tensor = self.ends(hidden).float().transpose(1, 2)
        present: Tensor = self.present(hidden[:, 0]).float()[:, 0]
        return scores.masked_fill(~inside[:, None], float("-inf")), present
