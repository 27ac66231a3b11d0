"""Signatures on a device: those of many texts are made at once, and many questions compared with all documents.

`FastCollector` is `Collector` on the device that reads texts; it takes the roots by Newton and Schulz's iteration, as a
CPU takes 3 ms for the root of one document, more than a GPU for reading it. `DeviceIndex` gives the scores and the mix
of `SearchIndex`; all signatures are compared exactly: a device needs no first scan that rounds.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attar.reader.fast_bank import DeviceRows, padded
from attar.reader.windows import WindowedText
from attar.search.index import SearchIndex, SignatureTable
from attar.search.lexical import Postings, Terms, bm25
from attar.search.ranking import SIGNATURE_WEIGHT, WORDS_WEIGHT, CorpusQuery, Moments, Standards
from attar.search.signatures import (
    Collector,
    Signer,
    Sums,
    signature_bytes,
    size_of,
    triangle_numbers,
    triangle_of,
)

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

# Signatures that are unpacked at a time: 270 MB.
_BLOCK = 8_192
# Scores of all documents that are made at a time, and postings that are added up: a gigabyte each.
_SCORES = 2**25
_POSTINGS = 2**24


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

    def points(self, states: Tensor, ids: Tensor, inside: Tensor) -> Tensor:
        """The weighted points of states `[B, n, d]` of word pieces; those not `inside` `[B, n, 1]` are 0."""
        points = states.float()
        if self.linear:
            linear, hidden, out = self.linear
            scaled = functional.normalize(points, dim=-1) * points.shape[-1] ** 0.5
            inner = functional.linear(scaled, hidden[:, :-1], hidden[:, -1]).relu()
            points = functional.linear(scaled, linear[:, :-1], linear[:, -1]) + functional.linear(inner, out)
        centred = (functional.normalize(points, dim=-1) - self.mean) * inside
        return centred @ self.directions * self.scales * self.roots[ids][..., None]


class DeviceQueries:
    """`Signer.query` of many texts, on a device."""

    def __init__(self, signer: Signer, encoder: "Transformer", device: torch.device) -> None:
        self._signer, self._encoder, self._device = signer, encoder, device
        self._weights = _Weights.of(signer.projection, device)

    @torch.inference_mode()
    def signatures(self, texts: Sequence[str]) -> Tensor:
        """The queries `[Q, numbers]` (`query_of`) of texts."""
        reader, size = self._signer.reader, self._signer.size
        tokenizer = reader.tokenizer
        cut = [WindowedText.of(text, tokenizer).windows for text in texts]
        windows = [
            np.concatenate(([tokenizer.cls], window.ids, [tokenizer.sep])) for text in cut for window in text
        ]
        owners = [at for at, text in enumerate(cut) for _ in text]
        total = torch.zeros((len(texts), size, size), device=self._device)
        if windows:
            ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(windows))
            states = self._encoder(ids, mask, layers=reader.signature_layers)
            inside = mask.clone()
            inside[:, 0] = False
            inside[:, :-1] &= mask[:, 1:]
            inside[:, -1] = False
            weighted = self._weights.points(states, ids, inside[..., None])
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
        self._batches: list[tuple[Sequence[int], EncodedBatch, Tensor]] = []

    @torch.inference_mode()
    def add_batch(self, encoded: "EncodedBatch", owners: Sequence[int]) -> None:
        """Add windows, each of the text with the number in `owners`."""
        inside = encoded.windows.inside[..., None]
        weighted = self._weights.points(encoded.states, encoded.windows.ids, inside)
        sums = (weighted.mT @ weighted)[:, self._rows, self._columns]
        self._batches.append((owners, encoded, sums.to("cpu", non_blocking=True)))

    @torch.inference_mode()
    def finish(self) -> None:
        """Bring the sums of all texts from the device, and take their roots there."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        for owners, encoded, sums in self._batches:
            for number, window, row in zip(owners, encoded.batch, sums.numpy(), strict=True):
                unique, counts = np.unique(window.ids, return_counts=True)
                of_window = Sums(row, len(window.ids), unique.astype(np.uint16), counts)
                self.sums[number] = self.sums[number] + of_window if number in self.sums else of_window
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


class _Posted(NamedTuple):
    """`Postings` with rows and counts on a device."""

    rows: Tensor
    counts: Tensor
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, postings: Postings, device: torch.device) -> "_Posted":
        rows, counts, bounds = postings
        counts = counts if counts.dtype == np.uint8 else counts.astype(np.int32)
        return cls(torch.from_numpy(rows).to(device), torch.from_numpy(counts).to(device), bounds)


class Compared(NamedTuple):
    """The scores of questions by words and by signatures `[Q, N]`, and which row of the table each of N is."""

    words: Tensor
    signatures: Tensor
    rows: Tensor
    table: SignatureTable

    @torch.inference_mode()
    def standards(self) -> list[Standards]:
        """The moments of each question's scores."""
        moments = zip(Moments.of_rows(self.words), Moments.of_rows(self.signatures), strict=True)
        return [Standards(words, signatures, rounded=False) for words, signatures in moments]

    @torch.inference_mode()
    def best(
        self, standards: Sequence[Standards], count: int, within: Collection[bytes] | None
    ) -> tuple[list[list[float]], list[list[int]]]:
        """The highest mixed scores, and their rows; `within` has the keys of the only ones that count."""
        keys, device = self.table.keys, self.words.device
        mixed = torch.zeros_like(self.words)
        for weight, scores, moments in (
            (WORDS_WEIGHT, self.words, [each.words for each in standards]),
            (SIGNATURE_WEIGHT, self.signatures, [each.signatures for each in standards]),
        ):
            standard = torch.from_numpy(np.array([each.standard for each in moments], np.float32)).to(device)
            mixed += weight * ((scores - standard[:, :1]) / standard[:, 1:])
        rows = self.rows
        if within is not None:
            wanted = torch.tensor([keys[row] in within for row in rows.tolist()], device=device)
            mixed, rows = mixed[:, wanted], rows[wanted]
        highest, places = mixed.topk(min(count, mixed.shape[1]))
        return highest.tolist(), rows[places].tolist()


class DeviceIndex:
    """The signatures and postings of an index on a device; follows it."""

    def __init__(self, index: SearchIndex, encoder: "Transformer", device: torch.device) -> None:
        self.index, self._device = index, device
        self._queries = DeviceQueries(index.signer, encoder, device)
        self._version, self._known = -1, 0
        self._table: SignatureTable | None = None
        self._sorted: Postings | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all documents on the device, as of the last question."""
        tensors = (part for posted in self._posted for part in posted[:2])
        return self._signs.nbytes + sum(part.nbytes for part in tensors) + 12 * self._known

    @staticmethod
    def bytes_of(table: SignatureTable) -> int:
        """What the documents of an index take there."""
        postings = (int(part.rows.nbytes + part.counts.nbytes) for part in table.words.postings())
        return len(table.keys) * (int(table.packed.shape[1]) + 12) + sum(postings)

    def refresh(self) -> None:
        """Take over what changed in the index; rows are only ever appended to a table."""
        with self.index.rows() as (version, table, by_words):
            if version == self._version:
                return
            device = self._device
            if table is not self._table:
                width = signature_bytes(self.index.signer.size)
                self._signs = DeviceRows(device, signs=((width,), torch.uint8))
                self._table, self._known = table, 0
            if len(table.keys) > self._known:
                self._signs.append(signs=table.packed[self._known :])
            self._known = len(table.keys)
            self._live = torch.from_numpy(table.live).to(device)
            self._lengths = torch.from_numpy(table.words.lengths).to(device)
            posted, recent = table.words.postings()
            if posted is not self._sorted:
                self._sorted, self._large = posted, _Posted.of(posted, device)
            self._posted = self._large, _Posted.of(recent, device)
            self._version, self._by_words = version, by_words

    @torch.inference_mode()
    def compare(self, asked: Sequence[CorpusQuery]) -> Compared:
        """The scores of all documents, as of the last `refresh`."""
        assert self._table is not None
        by_words = self._words([Terms.of(query.corpus) for query in asked])[:, self._live].float()
        by_signatures = by_words.new_zeros(by_words.shape)
        if not self._by_words:
            queries = self._queries.signatures([query.text for query in asked])
            self._compare_signatures(queries, by_signatures)
        return Compared(by_words, by_signatures, self._live, self._table)

    def _compare_signatures(self, queries: Tensor, scores: Tensor) -> None:
        """Fill scores `[Q, N]`: 2 Σ q_i t_i − Σ q_i, as `ranking.scores` has it."""
        totals, numbers = queries.sum(1, keepdim=True), triangle_numbers(self.index.signer.size)
        shifts = torch.arange(8, dtype=torch.uint8, device=self._device)
        for first in range(0, len(self._live), _BLOCK):
            signs = self._signs["signs"][self._live[first : first + _BLOCK]]
            bits = ((signs[..., None] >> shifts) & 1).flatten(1)[:, :numbers].float()
            scores[:, first : first + _BLOCK] = 2 * (queries @ bits.T) - totals

    def _words(self, terms: Sequence[Terms]) -> Tensor:
        """BM25 `[Q, rows]`; in float64, as the order of additions is not always the same."""
        scores = torch.zeros((len(terms), len(self._lengths)), dtype=torch.float64, device=self._device)
        if not len(self._lengths):
            return scores
        owners = np.repeat(np.arange(len(terms)), [len(each.pieces) for each in terms])
        pieces = np.concatenate([each.pieces for each in terms]).astype(np.int64)
        weights = np.concatenate([each.weights for each in terms])
        means = np.array([each.mean for each in terms], np.float32)[owners]
        for posted in self._posted:
            starts, sizes = posted.bounds[pieces], np.diff(posted.bounds)[pieces]
            for part in _parts(sizes):
                given = (owners[part], weights[part], means[part], starts[part], sizes[part])
                owner, weight, mean, start, size = self._on_device(given)
                total = int(sizes[part].sum())
                term = torch.repeat_interleave(size, output_size=total)
                places = torch.arange(total, device=self._device) + (start - size.cumsum(0) + size)[term]
                rows = posted.rows[places].long()
                added = bm25(weight[term], posted.counts[places].float(), self._lengths[rows], mean[term])
                scores.view(-1).index_add_(0, owner[term] * len(self._lengths) + rows, added.double())
        return scores

    def _on_device(self, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        return [torch.from_numpy(array).to(self._device) for array in arrays]


def together(documents: int) -> int:
    """How many questions are compared with this many documents at a time."""
    return max(1, _SCORES // max(documents, 1))


def _parts(sizes: NDArray[np.int64]) -> Iterator[slice]:
    """Terms whose postings are added up together, given the size of each.

    >>> list(_parts(np.array([2, 2**24, 1, 0])))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
    """
    first = total = 0
    for at, size in enumerate(sizes.tolist()):
        if at > first and total + size > _POSTINGS:
            yield slice(first, at)
            first, total = at, 0
        total += size
    if len(sizes):
        yield slice(first, len(sizes))
