"""`Collector` on a reader's device, and the roots of many documents at a time: Newton and Schulz's iteration.

A CPU takes 3 ms for the root of one document, more than a GPU for reading it.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attar.search.signatures import Collector, Sums, size_of, triangle_numbers, triangle_of

if TYPE_CHECKING:
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
        points = encoded.states.float()
        if weights.linear:
            linear, hidden, out = weights.linear
            scaled = functional.normalize(points, dim=-1) * points.shape[-1] ** 0.5
            inner = functional.linear(scaled, hidden[:, :-1], hidden[:, -1]).relu()
            points = functional.linear(scaled, linear[:, :-1], linear[:, -1]) + functional.linear(inner, out)
        unit = functional.normalize(points, dim=-1) * inside
        centred = (unit - weights.mean) * inside
        points = centred @ weights.directions
        weighted = points * weights.scales * weights.roots[encoded.windows.ids][..., None]
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
    roots: Floats = root[:, rows, columns].float().cpu().numpy()
    return roots


def _root(matrix: Tensor, shift: float) -> Tensor:
    """The roots of matrices of norm 1 plus a multiple of the identity."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    root, inverse = matrix + shift * identity, identity.expand_as(matrix)
    for _ in range(_STEPS):
        step = 1.5 * identity - 0.5 * inverse @ root
        root, inverse = root @ step, step @ inverse
    return root
