"""The rows of an index: the signature and the word counts of each document, and rows of removed documents."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.search.lexical import Lexical
from attar.search.records import SignatureRecord, Signer
from attar.search.signatures import signature_bytes
from attar.store.signatures import StampedSignature

# Arrays get room for this many times their rows when they are full.
_GROWTH = 1.5

Rows = NDArray[np.intp]


class SignatureTable:
    """Rows are appended and removed, never changed; the number of a row stays."""

    def __init__(self, signer: Signer, room: int = 0) -> None:
        self._signer = signer
        self._keys: list[bytes] = []
        self._row_of: dict[bytes, int] = {}
        self._changed = np.zeros(room, np.int64)
        self._packed = np.zeros((room, signature_bytes(signer.size)), np.uint8)
        # What the projection keeps of each document's variance, and the whole.
        self._energies = np.zeros((room, 2))
        self._is_live = np.zeros(room, np.bool_)
        self._live: Rows | None = None
        self.words = Lexical(signer.pieces)

    def __len__(self) -> int:
        """The documents: rows that are not removed."""
        return len(self._row_of)

    def __contains__(self, key: bytes) -> bool:
        return key in self._row_of

    @property
    def keys(self) -> list[bytes]:
        """The key of each row, also of removed ones."""
        return self._keys

    @property
    def packed(self) -> NDArray[np.uint8]:
        """The signs of each row."""
        return self._packed[: len(self._keys)]

    @property
    def is_live(self) -> NDArray[np.bool_]:
        """Whether each row is a document, and not removed."""
        return self._is_live[: len(self._keys)]

    @property
    def live(self) -> Rows:
        """The rows of all documents; one array for all queries until something changes."""
        if self._live is None:
            self._live = np.flatnonzero(self.is_live)
        return self._live

    def changed(self, row: int) -> int:
        """The time of change of the document that a row was made of."""
        return int(self._changed[row])

    def append(self, signatures: Iterable[StampedSignature], *, more: bool = False) -> bool:
        """Add signatures that were made with these statistics as the next rows; returns whether there are any.

        With `more`, others follow before the next query or removal.
        """
        accepted = []
        for signature in signatures:
            try:
                record = SignatureRecord.from_bytes(signature.data, self._signer.size)
            except RecordError:  # it is made again
                continue
            pieces, counts = record.word_counts
            known = not len(pieces) or pieces.max() < self._signer.pieces
            if known and record.statistics == self._signer.projection.digest:
                accepted.append((signature, record, (pieces, counts)))
        self.words.append([counts for _, _, counts in accepted], more=more)
        if not accepted:
            return False
        first, last = len(self._keys), len(self._keys) + len(accepted)
        self._make_room(last)
        keys = [signature.key for signature, _, _ in accepted]
        self._row_of |= zip(keys, range(first, last), strict=True)
        self._keys += keys
        self._changed[first:last] = [signature.changed for signature, _, _ in accepted]
        joined = b"".join(record.signature for _, record, _ in accepted)
        self._packed[first:last] = np.frombuffer(joined, np.uint8).reshape(len(accepted), -1)
        self._energies[first:last] = [(record.kept, record.whole) for _, record, _ in accepted]
        self._is_live[first:last] = True
        self._live = None
        return True

    def _make_room(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._changed = np.concatenate((self._changed, np.zeros(room, np.int64)))
            self._energies = np.concatenate((self._energies, np.zeros((room, 2))))
            self._is_live = np.concatenate((self._is_live, np.zeros(room, np.bool_)))

    def remove(self, key: bytes) -> bool:
        """Remove a document's row, if there is one; returns whether there was."""
        row = self._row_of.pop(key, None)
        if row is None:
            return False
        self._is_live[row] = False
        self._live = None
        self.words.remove(row)
        return True

    @property
    def drift(self) -> float:
        """How much less of the documents' variance the projection keeps than of what it was fitted on, 0 to 1."""
        kept, whole = self._energies[self._is_live].sum(0)
        share = float(kept) / max(float(whole), 1e-30)
        return max(0.0, 1.0 - share / self._signer.projection.kept) if len(self) else 0.0
