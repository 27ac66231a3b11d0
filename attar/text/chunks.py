"""Where a text's chunks lie, and which of them are known: many found at once, each as two whole numbers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Chunks of more bytes than two numbers hold are left to whoever asks.
LONGEST_PACKED = 16
_MARGIN = b"\0" * LONGEST_PACKED
# By byte: 1 for a space in ASCII, 2 for the first byte of a character in UTF-8 that may be another space.
_ROLES = np.zeros(256, np.uint8)
_ROLES[[*range(9, 14), *range(28, 33)]] = 1
_ROLES[[0xC2, 0xE1, 0xE2, 0xE3]] = 2
# What `str.isspace` calls a space beyond ASCII, its three bytes as one number, nothing for a third that is not.
_WIDE_SPACES = np.array(
    [
        int.from_bytes(space.encode().ljust(3, b"\0"))
        for space in "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
        "\u2028\u2029\u202f\u205f\u3000"
    ],
    np.int32,
)
_TWO_BYTES = 0xC2
_NEWLINE = 10
# By a chunk's length, the bytes of either number that are its own; none of a chunk that is too long.
_FIRST_BYTES = np.array([*(2 ** (8 * min(n, 8)) - 1 for n in range(LONGEST_PACKED + 1)), 0], np.uint64)
_SECOND_BYTES = np.array([*(2 ** (8 * max(n - 8, 0)) - 1 for n in range(LONGEST_PACKED + 1)), 0], np.uint64)
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
# A chunk has as many places where it may lie as there are numbers here, each as good as drawn by lot.
_LOTS = np.array([0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3], np.uint64)


class Chunks(NamedTuple):
    """Where chunks lie in UTF-8 `[c]`, and whether a blank line comes before each `[c]`."""

    data: bytes
    starts: NDArray[np.intp]
    stops: NDArray[np.intp]
    after_blank_line: NDArray[np.bool_]

    def spelled(self, at: NDArray[np.intp]) -> list[str]:
        """Give some of the chunks themselves."""
        places = zip(self.starts[at].tolist(), self.stops[at].tolist(), strict=True)
        return [self.data[start:stop].decode("utf-8", "surrogatepass") for start, stop in places]


def find_chunks(text: str) -> Chunks:
    """Find what stands between spaces, as `str.split` does.

    >>> found = find_chunks("Ann left.\\n\\nThen")
    >>> found.spelled(np.arange(3)), found.after_blank_line.tolist()
    (['Ann', 'left.', 'Then'], [False, False, True])
    """
    # No word has a NUL in it, and a packed chunk ends with them: another control character does as well.
    data = text.replace("\0", "\1").encode(errors="surrogatepass") + _MARGIN
    codes = np.frombuffer(data, np.uint8, len(data) - len(_MARGIN) + 1)
    roles = _ROLES.take(codes)
    space = roles == 1
    space[-1] = True
    if not text.isascii():
        _note_wide_spaces(codes, (roles == 2).nonzero()[0], space)
    edges = (space[1:] != space[:-1]).nonzero()[0] + 1
    if not space[0]:
        edges = np.concatenate((np.zeros(1, np.intp), edges))
    starts, stops = edges[::2], edges[1::2]
    after_blank_line = np.zeros(len(starts) + 1, np.bool_)
    following = np.searchsorted(starts, (codes == _NEWLINE).nonzero()[0])
    after_blank_line[following[1:][following[1:] == following[:-1]]] = True
    return Chunks(data, starts, stops, after_blank_line[:-1])


def _note_wide_spaces(codes: NDArray[np.uint8], firsts: NDArray[np.intp], space: NDArray[np.bool_]) -> None:
    """Mark the bytes of the spaces beyond ASCII among the characters that begin at `firsts`."""
    lead = codes[firsts].astype(np.int32)
    short = lead == _TWO_BYTES
    wide = lead << 16 | codes[firsts + 1].astype(np.int32) << 8 | np.where(short, 0, codes[firsts + 2])
    nearest = np.minimum(np.searchsorted(_WIDE_SPACES, wide), len(_WIDE_SPACES) - 1)
    found = _WIDE_SPACES[nearest] == wide
    space[firsts[found]] = space[firsts[found] + 1] = True
    space[firsts[found & ~short] + 2] = True


def pack_chunks(chunks: Chunks) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Give each chunk's first eight bytes and the next eight, each as a number; 0 and 0 if it is longer.

    >>> [numbers.tolist() for numbers in pack_chunks(find_chunks("a ab"))]
    [[97, 25185], [0, 0]]
    """
    count = len(chunks.data) - 7
    eights = np.ndarray((count,), "<u8", chunks.data, strides=(1,))
    lengths = np.minimum(chunks.stops - chunks.starts, LONGEST_PACKED + 1)
    first, second = eights[chunks.starts], eights[chunks.starts + 8]
    first &= _FIRST_BYTES[lengths]
    second &= _SECOND_BYTES[lengths]
    return first, second


def _mix(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = first * _MIX[0]
    mixed += second * _MIX[1]
    mixed ^= mixed >> np.uint64(29)
    return mixed


class ChunkTable:
    """Numbers by packed chunk, looked up for many chunks at once.

    >>> table = ChunkTable()
    >>> first, second = pack_chunks(find_chunks("a ab"))
    >>> table.add(first[1:], second[1:], np.array([7])).tolist()
    [True]
    >>> table.find(first, second).tolist()
    [-1, 7]
    """

    def __init__(self) -> None:
        self._clear(12)

    def _clear(self, bits: int) -> None:
        self._bits = bits
        # A row's three numbers lie side by side: one look at a place fetches them all.
        self._rows = np.zeros((2**bits, 3), np.uint64)
        self._count = 0

    def _places(self, mixed: NDArray[np.uint64], lot: np.uint64) -> NDArray[np.intp]:
        drawn = mixed * lot
        drawn >>= np.uint64(64 - self._bits)
        return drawn.view(np.intp)

    def find(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Give each chunk's number, -1 where it is not known."""
        mixed = _mix(first, second)
        rows = self._rows.take(self._places(mixed, _LOTS[0]), axis=0)
        numbers = rows[:, 2].astype(np.intp)
        # Where a place is free the chunk is nowhere: it would have been put there.
        missed = (((rows[:, 0] != first) | (rows[:, 1] != second)) & (numbers > 0)).nonzero()[0]
        for lot in _LOTS[1:]:
            if not len(missed):
                break
            rows = self._rows.take(self._places(mixed[missed], lot), axis=0)
            numbers[missed] = rows[:, 2]
            other = (rows[:, 0] != first[missed]) | (rows[:, 1] != second[missed])
            missed = missed[other & (rows[:, 2] > 0)]
        numbers[missed] = 0
        numbers -= 1
        return numbers

    def add(
        self, first: NDArray[np.uint64], second: NDArray[np.uint64], numbers: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Take up chunks that are not known, no two alike; tell which found a place."""
        rows = np.stack((first, second, (numbers + 1).view(np.uint64)), 1)
        while 4 * (self._count + len(rows)) > len(self._rows):
            self._grow()
        return self._place(rows)

    def _place(self, rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
        mixed = _mix(rows[:, 0], rows[:, 1])
        left = np.arange(len(rows))
        for lot in _LOTS:
            places = self._places(mixed[left], lot)
            free = self._rows[places, 2] == 0
            self._rows[places[free]] = rows[left[free]]
            left = left[(self._rows[places] != rows[left]).any(1)]  # another has it, or took it just now
        placed = np.ones(len(rows), np.bool_)
        placed[left] = False
        self._count += int(placed.sum())
        return placed

    def _grow(self) -> None:
        rows = self._rows[self._rows[:, 2] > 0]
        self._clear(self._bits + 1)
        self._place(rows[rows[:, 2].argsort()])  # the first that were met are the most frequent
