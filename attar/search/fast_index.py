"""`SearchIndex` on a device: many questions are compared with all documents at once, by the same scores and mix.

All signatures are compared exactly: a device needs no first scan that rounds.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attar.reader.fast_bank import DeviceRows
from attar.search.fast_signatures import DeviceQueries
from attar.search.index import SearchIndex, SignatureTable
from attar.search.lexical import Postings, Terms, bm25
from attar.search.ranking import SIGNATURE_WEIGHT, WORDS_WEIGHT, CorpusQuery, Moments, Standards
from attar.search.signatures import signature_bytes, triangle_numbers

if TYPE_CHECKING:
    from attar.nn.transformer import Transformer

# Signatures that are unpacked at a time: 270 MB.
_BLOCK = 8_192
# Scores of all documents that are made at a time, and postings that are added up: a gigabyte each.
_SCORES = 2**25
_POSTINGS = 2**24


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
            texts = self.index.queries([query.text for query in asked])
            queries = self._queries.signatures([text.windows for text in texts])
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
