"""The pages of LMDB's file, read without LMDB: what is wrong with them, and the values that can still be read.

LMDB trusts its file: a truncated or changed one can end the process. These functions read with `pread` and check
every number before they use it. Layout, 64 bits, in the machine's byte order (LMDB 0.9):

    page    8 number, 2 unused, 2 flags, 2 lower, 2 upper; lower and upper are 4 bytes, a count, in overflow pages
    meta    after the page's header: 4 magic, 4 version, 16 unused, 48 free list, 48 tree, 8 last page, 8 transaction
    tree    4 page size (in the free list's), 2 flags, 2 depth, 32 counters, 8 root
    node    2 and 2 size or child's number, 2 flags (or the number's third part), 2 key's length, the key, the data

A B-tree of branch and leaf pages; after the header the offsets of their nodes, 2 bytes each, up to `lower`. A value
that is too large for a leaf lies in a run of overflow pages, after the header of the first.
"""

import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_PAGE = struct.Struct("=QHHHH")
_META = struct.Struct("=II16x48s48sQQ")
_TREE = struct.Struct("=IHH32xQ")
_NODE = struct.Struct("=HHHH")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF = 1, 2
_BIG = 1
_NO_PAGE = 2**64 - 1
_DEEPEST = 32
_PAGE_SIZES = [2**bits for bits in range(9, 16)]


class Place(NamedTuple):
    """Where a value lies in the file."""

    at: int
    length: int


class Meta(NamedTuple):
    """What one of the two meta pages says of the file; that of the later transaction counts."""

    page_size: int
    transaction: int
    last_page: int
    root: int
    free_root: int


@dataclass
class PageFile:
    """An LMDB file of which any part may be damaged or missing.

    `faults` collects what cannot be read, `misplaced` the values that LMDB would not find.
    """

    file: int
    size: int
    faults: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)

    def metas(self) -> list[Meta]:
        """Return the meta pages that can be read, the one that counts first."""
        found = []
        for page_size in _PAGE_SIZES:
            for number in (0, 1):
                meta = self._meta(number, page_size)
                if meta is not None and meta not in found:
                    found.append(meta)
            if len(found) == 2:
                break
        return sorted(found, key=lambda meta: meta.transaction, reverse=True)

    def _meta(self, number: int, page_size: int) -> Meta | None:
        data = os.pread(self.file, _META.size, number * page_size + _PAGE.size)
        if len(data) < _META.size:
            return None
        magic, version, free, main, last_page, transaction = _META.unpack(data)
        claimed_size, _, _, free_root = _TREE.unpack(free)
        if magic != _MAGIC or version != _VERSION or claimed_size != page_size:
            return None
        return Meta(page_size, transaction, last_page, _TREE.unpack(main)[3], free_root)

    def values(self, meta: Meta) -> dict[bytes, Place]:
        """Return where the values of the store lie, by key: all those to which the tree's sound pages lead.

        If pages of the tree are damaged, the leaves below them are looked for among all pages, unless they are on
        the free list: pages on it hold what was removed or replaced.
        """
        found: dict[bytes, Place] = {}
        seen: set[int] = set()
        before = len(self.faults)
        for key, place in self.walk(meta, meta.root, seen):
            found.setdefault(key, place)
        if len(self.faults) > before:
            for key, place in self._unreached(meta, seen):
                found.setdefault(key, place)
        return found

    def walk(self, meta: Meta, root: int, seen: set[int]) -> Iterator[tuple[bytes, Place]]:
        """Yield the values of a tree; `seen` collects its pages.

        A page's keys must lie between the two that lead to it: LMDB would not find the others.
        """
        first: tuple[int, int, bytes, bytes | None] = (root, 1, b"", None)
        pending = [] if root == _NO_PAGE else [first]
        while pending:
            number, depth, low, high = pending.pop()
            if number in seen or depth > _DEEPEST:
                self.faults.append(f"page {number} is reached twice")
                continue
            seen.add(number)
            page = self._page(meta, number)
            if page is None:
                continue
            flags = _PAGE.unpack_from(page)[2]
            if flags == _BRANCH:
                nodes = list(self._nodes(page, number))
                # The first key is empty: it stands for the one that leads to this page.
                keys = [low, *(node[3] for node in nodes[1:]), high]
                for place, (a, b, c, _, _) in enumerate(nodes):
                    pending.append((a | b << 16 | c << 32, depth + 1, keys[place] or b"", keys[place + 1]))
            elif flags == _LEAF:
                for key, value in self._leaf(meta, page, number, seen):
                    if root == meta.root and (key < low or (high is not None and key >= high)):
                        self.misplaced.append(f"page {number}, key {key[:60]!r}: no key leads to it")
                    yield key, value
            else:
                self.faults.append(f"page {number} is neither a branch nor a leaf of the tree")

    def _page(self, meta: Meta, number: int) -> bytes | None:
        page = (
            os.pread(self.file, meta.page_size, number * meta.page_size) if number <= meta.last_page else b""
        )
        if len(page) < meta.page_size:
            self.faults.append(f"page {number} is missing")
        elif number < 2 or _PAGE.unpack_from(page)[0] != number:
            self.faults.append(f"page {number} holds something else")
        else:
            return page
        return None

    def _nodes(self, page: bytes, number: int) -> Iterator[tuple[int, int, int, bytes, int]]:
        """Yield a page's nodes: the three numbers they begin with, the key, and where its data begin in the page."""
        lower = _PAGE.unpack_from(page)[3]
        if not _PAGE.size <= lower <= len(page) or lower % 2:
            self.faults.append(f"page {number} has an impossible number of values")
            return
        for (at,) in struct.iter_unpack("=H", page[_PAGE.size : lower]):
            if not lower <= at <= len(page) - _NODE.size:
                self.faults.append(f"page {number} has a value outside of it")
                continue
            low, high, flags, key_length = _NODE.unpack_from(page, at)
            data_at = at + _NODE.size + key_length
            if data_at > len(page):
                self.faults.append(f"page {number} has a key that is longer than the page")
                continue
            yield low, high, flags, page[at + _NODE.size : data_at], data_at

    def _leaf(self, meta: Meta, page: bytes, number: int, seen: set[int]) -> Iterator[tuple[bytes, Place]]:
        for low, high, flags, key, data_at in self._nodes(page, number):
            length = low | high << 16
            what = f"page {number}, key {key[:60]!r}"
            if flags == _BIG and data_at + 8 <= len(page):
                first = int.from_bytes(page[data_at : data_at + 8], sys.byteorder)
                run = -(-(_PAGE.size + length) // meta.page_size)
                if first < 2 or first + run - 1 > meta.last_page:
                    self.faults.append(f"{what}: its value lies outside of the file")
                elif (first + run) * meta.page_size > self.size:
                    self.faults.append(f"{what}: the end of its value is missing")
                else:
                    seen.update(range(first, first + run))
                    yield key, Place(first * meta.page_size + _PAGE.size, length)
            elif flags == 0 and data_at + length <= len(page):
                yield key, Place(number * meta.page_size + data_at, length)
            else:
                self.faults.append(f"{what}: its value is longer than the page")

    def _unreached(self, meta: Meta, seen: set[int]) -> Iterator[tuple[bytes, Place]]:
        free = self._free_pages(meta)
        if free is None:
            return
        pages = min(meta.last_page + 1, self.size // meta.page_size)
        others = PageFile(self.file, self.size)
        for number in sorted(set(range(2, pages)) - seen - free):
            page = os.pread(self.file, meta.page_size, number * meta.page_size)
            itself, _, flags, _, _ = _PAGE.unpack_from(page)
            if (itself, flags) == (number, _LEAF):
                # A page that only looks like a leaf is no fault: its values have wrong checksums.
                yield from others._leaf(meta, page, number, set())

    def _free_pages(self, meta: Meta) -> set[int] | None:
        """Return the pages on the free list, or None if it cannot be read whole."""
        lists = PageFile(self.file, self.size)
        seen: set[int] = set()
        free: set[int] = set()
        for _, place in lists.walk(meta, meta.free_root, seen):
            data = self.read(place)
            if len(data) % 8 or not data:
                return None
            count, *pages = struct.unpack(f"={len(data) // 8}Q", data)
            free.update(pages[:count])
        return None if lists.faults else free | seen

    def read(self, place: Place) -> bytes:
        """Return the bytes of a value; fewer if the file ends before."""
        return os.pread(self.file, min(place.length, max(0, self.size - place.at)), place.at)


def page_faults(data: Path) -> list[str]:
    """Describe what is wrong with the pages of a file; nobody may write meanwhile.

    The first two pages, of which the later one counts, have no checksum: a flipped bit in the number of the last
    transaction there undoes it, and this cannot be detected.
    """
    from lmdb.verify import VerifyError, verify

    try:
        faults = [str(fault) for fault in verify(str(data), subdir=False)]  # type: ignore[no-untyped-call]
    except VerifyError as fault:
        return [str(fault)]
    # py-lmdb's walk reads only the first page of a run.
    return faults or run_faults(data)


def run_faults(data: Path) -> list[str]:
    """Describe the values of which the file lacks a part."""
    with open(data, "rb") as file:
        pages = PageFile(file.fileno(), os.fstat(file.fileno()).st_size)
        for meta in pages.metas()[:1]:
            for _ in pages.walk(meta, meta.root, set()):
                pass
        return pages.faults + pages.misplaced
