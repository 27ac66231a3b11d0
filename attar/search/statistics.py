"""Statistics of a corpus that signatures are made with: mean and covariance of token states, word pieces' frequencies.

They are sums over documents, fitted one document at a time. A `Projection` is what follows from them: the mean, the
directions of most variance, and the weight (IDF) of each word piece. The states may pass through a `StateMap` first,
which was learned from questions and is the same for every corpus.
"""

import hashlib
import math
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError, ShapeError
from attar.progress import one_thread
from attar.reader.folders import DEFAULT, SHIPPED, shipped_reader

Floats = NDArray[np.float32]


class StateMap:
    """Token states `[n, d]` to points `[n, m]` that tell texts apart better: A u + C relu(B u), u = √d h / |h|.

    A reader's own states are made for answering. Weights have a column for a constant 1, the bias.

    >>> bent = StateMap(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]]), np.array([[-1.0]]))
    >>> [f"{point:.2f}" for point in bent(np.array([[2.0, 0.0], [0.0, 2.0]], np.float32))[:, 0]]
    ['1.41', '-1.41']
    """

    def __init__(self, linear: NDArray[Any], hidden: NDArray[Any], out: NDArray[Any]) -> None:
        # Kept in float16, so that what is computed is what is saved.
        self.weights: tuple[Floats, ...] = tuple(
            weights.astype(np.float16).astype(np.float32) for weights in (linear, hidden, out)
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """d, the numbers of the hidden layer, and m."""
        linear, hidden, _ = self.weights
        return linear.shape[1] - 1, len(hidden), len(linear)

    def __call__(self, states: Floats) -> Floats:
        linear, hidden, out = self.weights
        scaled: Floats = unit_rows(np.asarray(states, np.float32)) * np.float32(math.sqrt(states.shape[1]))
        with one_thread():
            inner: Floats = np.maximum(scaled @ hidden[:, :-1].T + hidden[:, -1], np.float32(0))
            points: Floats = scaled @ linear[:, :-1].T + linear[:, -1] + inner @ out.T
        return points

    @cached_property
    def data(self) -> bytes:
        return b"".join(weights.astype("<f2").tobytes() for weights in self.weights)

    @classmethod
    def from_bytes(cls, data: bytes, sizes: tuple[int, int, int]) -> "StateMap":
        """Read the weights of a map of these sizes; ValueError if they are of others, or not finite."""
        d, h, m = sizes
        shapes = ((m, d + 1), (h, d + 1), (m, h))
        numbers = np.frombuffer(data, "<f2")
        if len(numbers) != sum(rows * columns for rows, columns in shapes) or not np.isfinite(numbers).all():
            raise ValueError("a map of other sizes, or of numbers that are not finite")
        first, second = m * (d + 1), (m + h) * (d + 1)
        parts = zip((numbers[:first], numbers[first:second], numbers[second:]), shapes, strict=True)
        return cls(*(part.reshape(shape) for part, shape in parts))


def unit_rows(states: Floats) -> Floats:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(states, axis=-1, keepdims=True)
    rows: Floats = states / np.maximum(lengths, 1e-12)
    return rows


Doubles = NDArray[np.float64]
# In a reader's folder; not one of the files that its fingerprint is made of.
STATISTICS_FILE = "search.bin"
# Rare word pieces count more than by their IDF alone: 1.5 was better than 1 on questions of SQuAD's training set.
WEIGHT_POWER = 1.5
_VERSION = 1
# Dimensions of states and points.
_MOST_SIZE = 4_096
# A document's pieces are kept as 16-bit numbers.
_MOST_PIECES = 2**16
# Means and variances of states, which have about one as their length.
_LARGEST = 1e30

_Size = Annotated[int, msgspec.Meta(ge=1, le=_MOST_SIZE)]


class _Written(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The statistics as bytes: MessagePack; the covariance as float16, scaled, frequencies compressed."""

    version: int
    reader: str
    size: _Size
    documents: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    mean: bytes
    scale: float
    covariance: bytes
    frequencies: bytes
    map_sizes: tuple[_Size, _Size, _Size] | None = None
    map: bytes = b""


@dataclass(frozen=True, eq=False)
class Projection:
    """How token states `[n, d]` become points `[n, k]` of equal variance, and what each word piece weighs.

    `digest` names the statistics.
    """

    mean: Floats
    directions: Floats
    scales: Floats
    weights: Floats
    digest: bytes
    map: StateMap | None = None

    @property
    def size(self) -> int:
        return int(self.directions.shape[1])

    @property
    def state_size(self) -> int:
        """d, the size of the states that it takes."""
        return len(self.mean) if self.map is None else self.map.sizes[0]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over a corpus: of unit token states, of their outer products, of the documents that hold each word piece.

    >>> one = Statistics.empty("r", size=2, pieces=4).with_words(np.array([1, 3]))
    >>> two = one.with_words(np.array([3])).with_states(np.array([3]), np.ones((1, 2), np.float32))
    >>> two.documents, two.tokens, two.frequencies.tolist()
    (2, 1, [0, 1, 0, 2])
    """

    reader: str
    documents: int
    tokens: int
    total: Doubles
    products: Doubles
    frequencies: NDArray[np.int64]
    map: StateMap | None = None

    @classmethod
    def empty(cls, reader: str, *, size: int, pieces: int, map: StateMap | None = None) -> "Statistics":
        """No documents yet; the reader's states have `size` dimensions."""
        size = size if map is None else map.sizes[-1]
        return cls(reader, 0, 0, np.zeros(size), np.zeros((size, size)), np.zeros(pieces, np.int64), map)

    @property
    def state_size(self) -> int:
        """d, the size of the states that they are fitted to."""
        return len(self.total) if self.map is None else self.map.sizes[0]

    def with_states(self, ids: NDArray[np.int64], states: Floats) -> "Statistics":
        """Continued by some states `[n, d]` of a document alone: those of a long one come window by window."""
        unit = unit_points(ids, states, self)
        total, products = self.total + unit.sum(0, dtype=np.float64), self.products + unit.T @ unit
        return replace(self, tokens=self.tokens + len(states), total=total, products=products)

    def with_words(self, ids: NDArray[np.int64]) -> "Statistics":
        """Continued by the word pieces of a document alone: frequencies need more documents than a covariance does."""
        frequencies = self.frequencies.copy()
        frequencies[np.unique(ids)] += 1
        return replace(self, documents=self.documents + 1, frequencies=frequencies)

    @property
    def mean(self) -> Doubles:
        return self.total / max(self.tokens, 1)

    @property
    def covariance(self) -> Doubles:
        return self.products / max(self.tokens, 1) - np.outer(self.mean, self.mean)

    @property
    def digest(self) -> bytes:
        """The first eight bytes of their SHA-256: signatures made with others are not compared."""
        return hashlib.sha256(self.data).digest()[:8]

    def fit_states(self, size: int, pieces: int) -> bool:
        """Whether they are of states of this size, and of this number of word pieces."""
        return self.state_size == size and len(self.frequencies) == pieces

    def projection(self, size: int) -> Projection:
        """The `size` directions of most variance; of each, the largest component is positive.

        The sign is fixed, and computed in float64: signatures of one machine are compared with queries of another.
        """
        if not 1 <= size <= len(self.total):
            raise OptionError.expected("size", f"1 to {len(self.total)}", str(size))
        if not self.tokens:
            raise OptionError("the statistics have no documents", "fit them first")
        values, vectors = np.linalg.eigh(self.rounded.covariance)
        directions = vectors[:, ::-1][:, :size]
        largest = np.abs(directions).argmax(0)
        directions = directions * np.sign(directions[largest, np.arange(size)])
        largest_values = np.maximum(values, 0.0)[::-1][:size]
        scales = 1 / np.sqrt(np.maximum(largest_values, 1e-6 * largest_values[0] + 1e-30))
        weights = inverse_frequencies(self.frequencies, self.documents) ** WEIGHT_POWER
        return Projection(
            self.mean.astype(np.float32),
            directions.astype(np.float32),
            scales.astype(np.float32),
            weights.astype(np.float32),
            self.digest,
            self.map,
        )

    @cached_property
    def rounded(self) -> "Statistics":
        """These as they are once saved and loaded: both must give the same directions."""
        return Statistics.from_bytes(self.data)

    @cached_property
    def data(self) -> bytes:
        triangle = self.covariance[np.triu_indices(len(self.total))]
        scale = float(np.abs(triangle).max(initial=1e-30)) / 1_000
        written = _Written(
            _VERSION,
            self.reader,
            len(self.total),
            self.documents,
            self.tokens,
            self.mean.astype("<f4").tobytes(),
            scale,
            (triangle / scale).astype("<f2").tobytes(),
            zlib.compress(self.frequencies.astype("<u4").tobytes(), 9),
            *(() if self.map is None else (self.map.sizes, self.map.data)),
        )
        return msgspec.msgpack.encode(written)

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "search") -> "Statistics":
        """Read the bytes of statistics; anything else is refused."""
        try:
            written = msgspec.msgpack.decode(data, type=_Written)
            size = written.size
            mean = np.frombuffer(written.mean, "<f4").astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):  # found below
                triangle = np.frombuffer(written.covariance, "<f2").astype(np.float64) * written.scale
            unpacked = zlib.decompressobj().decompress(written.frequencies, 4 * _MOST_PIECES)
            frequencies = np.frombuffer(unpacked, "<u4").astype(np.int64)
            covariance = np.zeros((size, size))
            covariance[np.triu_indices(size)] = triangle
            learned = written.map_sizes and StateMap.from_bytes(written.map, written.map_sizes)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, zlib.error) as fault:
            raise FormatError(
                f"{source}: the statistics cannot be read: {fault}", "fit them again"
            ) from fault
        if written.version != _VERSION:
            raise FormatError(f"{source}: statistics of version {written.version}", "install a newer attar")
        sound = (
            len(mean) == size
            and (learned is None or learned.sizes[-1] == size)
            and math.isfinite(written.scale)
            # Not only finite: products of larger numbers overflow.
            and (np.abs(mean) < _LARGEST).all()
            and (np.abs(triangle) < _LARGEST).all()
            and len(frequencies) > 0
            and frequencies.max() <= written.documents
        )
        if not sound:
            raise FormatError(f"{source}: the parts of the statistics do not agree", "fit them again")
        covariance += np.triu(covariance, 1).T
        products = (covariance + np.outer(mean, mean)) * written.tokens
        counts = written.documents, written.tokens
        statistics = cls(written.reader, *counts, mean * written.tokens, products, frequencies, learned)
        # Not rounded again: the digest is that of these bytes.
        statistics.__dict__.update(data=bytes(data), rounded=statistics)
        return statistics

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        try:
            return cls.from_bytes(Path(path).read_bytes(), str(path))
        except OSError as fault:
            raise FormatError(f"{path}: the file cannot be read: {fault.strerror or fault}") from fault


def default_statistics(reader: str, folder: Path | None = None) -> Statistics | None:
    """The statistics in a reader's folder, given or shipped; None if there are none.

    They depend on the encoder alone: all shipped readers have the default's.
    """
    folders = [] if folder is None else [folder]
    if shipped_reader(reader) is not None:
        folders.append(SHIPPED / DEFAULT)
    files = (place / STATISTICS_FILE for place in folders)
    return next((Statistics.load(file) for file in files if file.is_file()), None)


def inverse_frequencies(frequencies: NDArray[np.int64], documents: int) -> Floats:
    """The weight of each word piece, as BM25 has it: high for a piece that few documents hold.

    >>> [f"{weight:.2f}" for weight in inverse_frequencies(np.array([0, 2, 4]), 4)]
    ['2.30', '0.69', '0.11']
    """
    weights: Floats = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
    return weights


def unit_points(ids: NDArray[np.int64], states: Floats, fitted: Statistics | Projection) -> Floats:
    """Rows of length 1 of states `[n, d]`, mapped if there is a map; states of another shape are refused."""
    if states.ndim != 2 or states.shape != (len(ids), fitted.state_size):
        raise ShapeError.expected("states", f"[{len(ids)}, {fitted.state_size}]", str(list(states.shape)))
    return unit_rows(np.asarray(states, np.float32) if fitted.map is None else fitted.map(states))
