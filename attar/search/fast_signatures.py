"""`Collector` on a reader's device, and the roots of many texts at a time: Newton and Schulz's iteration.

A CPU takes 3 ms for the root of one document, more than a GPU for reading it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attar.reader.fast_bank import padded
from attar.search.signatures import Collector, Signer, Sums, size_of, triangle_numbers, triangle_of

if TYPE_CHECKING:
    from attar.nn.transformer import Transformer
    from attar.reader.encoding import EncodedBatch
    from attar.search.statistics import Floats, Projection

# Documents whose roots are taken at a time: 400 MB.
_ROOTS = 1_024
# Added to all eigenvalues, compared with their norm: of fewer tokens than rows many are 0, but for rounding.
_SHIFT = 1e-6
# Each multiplies the smallest eigenvalue that converges by 4/9: enough for `_SHIFT`.
_STEPS = 22


@dataclass(frozen=True)
class _Weights:
    """A projection on a device."""

    linear: list[Tensor]  # of the map, if there is one
    mean: Tensor
    directions: Tensor
    scales: Tensor
    roots: Tensor  # of the weights of word pieces

    @classmethod
    def of(cls, projection: "Projection", device: torch.device) -> "_Weights":
        parts = () if projection.map is None else projection.map.weights
        arrays = (projection.mean, projection.directions, projection.scales, np.sqrt(projection.weights))
        *linear, mean, directions, scales, roots = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in (*parts, *arrays)
        )
        return cls(linear, mean, directions, scales, roots)

    def points(self, states: Tensor, ids: Tensor, inside: Tensor) -> "_Points":
        """Of states `[B, n, d]` of word pieces; those that are not `inside` `[B, n, 1]` are 0."""
        points = states.float()
        if self.linear:
            linear, hidden, out = self.linear
            scaled = functional.normalize(points, dim=-1) * points.shape[-1] ** 0.5
            inner = functional.linear(scaled, hidden[:, :-1], hidden[:, -1]).relu()
            points = functional.linear(scaled, linear[:, :-1], linear[:, -1]) + functional.linear(inner, out)
        unit = functional.normalize(points, dim=-1) * inside
        centred = (unit - self.mean) * inside
        points = centred @ self.directions
        return _Points(unit, centred, points, points * self.scales * self.roots[ids][..., None])


class _Points(NamedTuple):
    """Unit states, centred ones, their points in k dimensions, and these weighted."""

    unit: Tensor
    centred: Tensor
    points: Tensor
    weighted: Tensor


class DeviceQueries:
    """`Signer.query` of many texts, on a device."""

    def __init__(self, signer: Signer, encoder: "Transformer", device: torch.device) -> None:
        self._signer, self._encoder, self._device = signer, encoder, device
        self._weights = _Weights.of(signer.projection, device)

    @torch.inference_mode()
    def signatures(self, texts: Sequence[Sequence[NDArray[np.int64]]]) -> Tensor:
        """The queries `[Q, numbers]` (`query_of`) of texts, given as the word pieces of their windows."""
        reader, size = self._signer.reader, self._signer.size
        tokenizer = reader.tokenizer
        windows = [np.concatenate(([tokenizer.cls], ids, [tokenizer.sep])) for text in texts for ids in text]
        owners = [at for at, text in enumerate(texts) for _ in text]
        total = torch.zeros((len(texts), size, size), device=self._device)
        if windows:
            ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(windows))
            states = self._encoder(ids, mask, layers=reader.signature_layers)
            inside = mask.clone()
            inside[:, 0] = False
            inside[:, :-1] &= mask[:, 1:]
            inside[:, -1] = False
            weighted = self._weights.points(states, ids, inside[..., None]).weighted
            total.index_add_(0, torch.tensor(owners, device=self._device), weighted.mT @ weighted)
        rows, columns = _triangle_of(size, self._device)
        repeats = torch.where(rows == columns, 1.0, 2.0)
        return _roots(total[:, rows, columns]) * repeats


class FastCollector(Collector):
    """Adds up the sums of texts on the device that reads them; `finish` brings them here, with their roots."""

    def __init__(self, projection: "Projection", device: torch.device) -> None:
        super().__init__(projection)
        self._weights, self._device = _Weights.of(projection, device), device
        self._rows, self._columns = _triangle_of(projection.size, device)
        self._batches: list[tuple[NDArray[np.int64], EncodedBatch, Tensor]] = []

    @torch.inference_mode()
    def add_batch(self, encoded: "EncodedBatch", owners: NDArray[np.int64]) -> None:
        """Add windows, each of the text with the number in `owners`."""
        weights, projection = self._weights, self.projection
        inside = encoded.windows.inside[..., None]
        unit, centred, points, weighted = weights.points(encoded.states, encoded.windows.ids, inside)
        triangle = (weighted.mT @ weighted)[:, self._rows, self._columns]
        kept, whole = (part.square().sum((1, 2)) for part in (points, centred))
        if weights.linear:
            whole = (points * weights.scales).square().sum((1, 2))
            kept = projection.size * inside.sum((1, 2)).float()
        sums = torch.cat((triangle, unit.sum(1), kept[:, None], whole[:, None]), 1)
        self._batches.append((owners, encoded, sums.to("cpu", non_blocking=True)))

    @torch.inference_mode()
    def finish(self) -> None:
        """Bring the sums of all texts from the device, and take their roots there."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        triangle = triangle_numbers(self.projection.size)
        for owners, encoded, sums in self._batches:
            ids = np.split(encoded.batch.ids, np.cumsum(encoded.batch.lengths)[:-1])
            for number, pieces, row in zip(owners.tolist(), ids, sums.numpy(), strict=True):
                unique, counts = np.unique(pieces, return_counts=True)
                window = Sums(
                    row[:triangle],
                    row[triangle:-2],
                    float(row[-2]),
                    float(row[-1]),
                    len(pieces),
                    unique.astype(np.uint16),
                    counts,
                )
                self.sums[number] = self.sums[number] + window if number in self.sums else window
        self._batches.clear()
        numbers = list(self.sums)
        for first in range(0, len(numbers), _ROOTS):
            chosen = numbers[first : first + _ROOTS]
            triangles = torch.from_numpy(np.stack([self.sums[number].triangle for number in chosen]))
            for number, root in zip(chosen, roots_of(triangles.to(self._device)), strict=True):
                self.sums[number] = replace(self.sums[number], root=root)


def _triangle_of(size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    rows, columns = (torch.from_numpy(part).to(device) for part in triangle_of(size))
    return rows, columns


def roots_of(triangles: Tensor) -> "Floats":
    """`root_of` of many triangles `[n, numbers]`.

    >>> roots_of(torch.tensor([[16.0, 0.0, 9.0]])).round(3).tolist()
    [[0.800000011920929, 0.0, 0.6000000238418579]]
    """
    roots: Floats = _roots(triangles).cpu().numpy()
    return roots


def _roots(triangles: Tensor) -> Tensor:
    size = size_of(triangles.shape[1])
    rows, columns = _triangle_of(size, triangles.device)
    matrix = triangles.new_zeros((len(triangles), size, size), dtype=torch.float64)
    matrix[:, rows, columns] = triangles.double()
    matrix[:, columns, rows] = triangles.double()
    norm = torch.linalg.matrix_norm(matrix, keepdim=True)
    matrix /= norm.clamp(min=1e-30)
    # √(λ + ε) twice less √(λ + 4ε): 0 for 0, and √λ where ε is small.
    root = 2 * _root(matrix, _SHIFT) - _root(matrix, 4 * _SHIFT)
    root *= (norm > 0) / torch.linalg.matrix_norm(root, keepdim=True).clamp(min=1e-12)
    return root[:, rows, columns].float()


def _root(matrix: Tensor, shift: float) -> Tensor:
    """The roots of matrices of norm 1 plus a multiple of the identity."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    root, inverse = matrix + shift * identity, identity.expand_as(matrix)
    for _ in range(_STEPS):
        step = 1.5 * identity - 0.5 * inverse @ root
        root, inverse = root @ step, step @ inverse
    return root
