"""Statistics of a corpus that signatures are made with: mean and covariance of token states, word pieces' frequencies.

They are fitted one document at a time (`Fitting`). A `Projection` is what follows from them: the mean, the directions
of most variance, and the weight (IDF) of each word piece. The states may pass through a `StateMap` first, which was
learned from questions and is the same for every corpus.
"""

import hashlib
import math
import zlib
from dataclasses import dataclass
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


class Statistics(
    msgspec.Struct, array_like=True, frozen=True, dict=True, eq=False, forbid_unknown_fields=True
):
    """Mean and covariance of a corpus's unit token states, and how many documents hold each word piece.

    As they are written, in MessagePack: the triangle of the covariance as float16, scaled, frequencies compressed.
    """

    version: int
    reader: str
    size: _Size
    documents: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    mean_data: bytes
    scale: float
    covariance_data: bytes
    frequencies_data: bytes
    map_sizes: tuple[_Size, _Size, _Size] | None = None
    map_data: bytes = b""

    @cached_property
    def mean(self) -> Floats:
        return np.frombuffer(self.mean_data, "<f4").astype(np.float32)

    @cached_property
    def triangle(self) -> Doubles:
        """The upper triangle of the covariance."""
        with np.errstate(over="ignore", invalid="ignore"):  # found by `_is_sound`
            return np.frombuffer(self.covariance_data, "<f2").astype(np.float64) * self.scale

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        unpacked = zlib.decompressobj().decompress(self.frequencies_data, 4 * _MOST_PIECES)
        return np.frombuffer(unpacked, "<u4").astype(np.int64)

    @cached_property
    def map(self) -> StateMap | None:
        return None if self.map_sizes is None else StateMap.from_bytes(self.map_data, self.map_sizes)

    @cached_property
    def data(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @cached_property
    def digest(self) -> bytes:
        """The first eight bytes of their SHA-256: signatures made with others are not compared."""
        return hashlib.sha256(self.data).digest()[:8]

    def fit_states(self, size: int, pieces: int) -> bool:
        """Whether they are of states of this size, and of this number of word pieces."""
        return (self.map_sizes or (self.size,))[0] == size and len(self.frequencies) == pieces

    def projection(self, size: int) -> Projection:
        """The `size` directions of most variance; of each, the largest component is positive.

        The sign is fixed, and computed in float64: signatures of one machine are compared with queries of another.
        """
        if not 1 <= size <= self.size:
            raise OptionError.expected("size", f"1 to {self.size}", str(size))
        covariance = np.zeros((self.size, self.size))
        covariance[np.triu_indices(self.size)] = self.triangle
        covariance += np.triu(covariance, 1).T
        values, vectors = np.linalg.eigh(covariance)
        directions = vectors[:, ::-1][:, :size]
        largest = np.abs(directions).argmax(0)
        directions = directions * np.sign(directions[largest, np.arange(size)])
        largest_values = np.maximum(values, 0.0)[::-1][:size]
        scales = 1 / np.sqrt(np.maximum(largest_values, 1e-6 * largest_values[0] + 1e-30))
        weights = inverse_frequencies(self.frequencies, self.documents) ** WEIGHT_POWER
        parts = (directions.astype(np.float32), scales.astype(np.float32), weights.astype(np.float32))
        return Projection(self.mean, *parts, self.digest, self.map)

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "search") -> "Statistics":
        """Read the bytes of statistics; anything else is refused."""
        try:
            read = msgspec.msgpack.decode(data, type=cls)
            is_sound = read._is_sound()
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, zlib.error) as fault:
            raise FormatError(
                f"{source}: the statistics cannot be read: {fault}", "fit them again"
            ) from fault
        if read.version != _VERSION:
            raise FormatError(f"{source}: statistics of version {read.version}", "install a newer attar")
        if not is_sound:
            raise FormatError(f"{source}: the parts of the statistics do not agree", "fit them again")
        return read

    def _is_sound(self) -> bool:
        return (
            len(self.mean) == self.size
            and len(self.triangle) == self.size * (self.size + 1) // 2
            and (self.map is None or self.map.sizes[-1] == self.size)
            and math.isfinite(self.scale)
            # Not only finite: products of larger numbers overflow.
            and bool((np.abs(self.mean) < _LARGEST).all())
            and bool((np.abs(self.triangle) < _LARGEST).all())
            and len(self.frequencies) > 0
            and int(self.frequencies.max()) <= self.documents
        )

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        try:
            return cls.from_bytes(Path(path).read_bytes(), str(path))
        except OSError as fault:
            raise FormatError(f"{path}: the file cannot be read: {fault.strerror or fault}") from fault


class Fitting:
    """Sums over a corpus, of which its statistics are made.

    >>> fitting = Fitting("r", size=2, pieces=4)
    >>> fitting.add_words(np.array([1, 3]))
    >>> fitting.add_words(np.array([3]))
    >>> fitting.add_states(np.array([3]), np.ones((1, 2), np.float32))
    >>> found = fitting.statistics()
    >>> found.documents, found.tokens, found.frequencies.tolist()
    (2, 1, [0, 1, 0, 2])
    """

    def __init__(self, reader: str, *, size: int, pieces: int, map: StateMap | None = None) -> None:
        """The reader's states have `size` dimensions."""
        self._reader, self._size, self._map = reader, size, map
        points = size if map is None else map.sizes[-1]
        self._documents = self.tokens = 0
        self._total, self._products = np.zeros(points), np.zeros((points, points))
        self._frequencies = np.zeros(pieces, np.int64)

    def add_states(self, ids: NDArray[np.int64], states: Floats) -> None:
        """Some states `[n, d]` of a document: those of a long one come window by window."""
        unit = unit_points(ids, states, self._size, self._map)
        self.tokens += len(states)
        self._total += unit.sum(0, dtype=np.float64)
        self._products += unit.T @ unit

    def add_words(self, ids: NDArray[np.int64]) -> None:
        """The word pieces of a document: frequencies need more documents than a covariance does."""
        self._frequencies[np.unique(ids)] += 1
        self._documents += 1

    def statistics(self) -> Statistics:
        if not self.tokens:
            raise OptionError("no document of the library has a text to fit statistics to", "add some first")
        mean = self._total / self.tokens
        covariance = self._products / self.tokens - np.outer(mean, mean)
        triangle = covariance[np.triu_indices(len(mean))]
        scale = float(np.abs(triangle).max(initial=1e-30)) / 1_000
        return Statistics(
            _VERSION,
            self._reader,
            len(mean),
            self._documents,
            self.tokens,
            mean.astype("<f4").tobytes(),
            scale,
            (triangle / scale).astype("<f2").tobytes(),
            zlib.compress(self._frequencies.astype("<u4").tobytes(), 9),
            *(() if self._map is None else (self._map.sizes, self._map.data)),
        )


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


def unit_points(ids: NDArray[np.int64], states: Floats, size: int, map: StateMap | None) -> Floats:
    """Rows of length 1 of states `[n, d]`, mapped if there is a map; states of another shape are refused."""
    if states.ndim != 2 or states.shape != (len(ids), size):
        raise ShapeError.expected("states", f"[{len(ids)}, {size}]", str(list(states.shape)))
    return unit_rows(np.asarray(states, np.float32) if map is None else map(states))
