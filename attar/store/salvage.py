"""Reading an LMDB file that may be damaged, in a child process that may die: LMDB trusts its file.

    python -m attar.store.salvage read FILE         read every value
    python -m attar.store.salvage copy FILE NEW     make the probes that come on stdin, and copy what they find to NEW

A probe reads values from the first one on, or from the last one back, until it comes to a damaged page; or it reads
one value. The parent begins again after the probe that ended the child.
"""

import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import lmdb
import msgspec

# Damaged pages hide what is between them: each of these kinds is read from both ends, and then by names.
_KINDS = (b"a", b"f", b"m", b"s", b"t")


class _Probe(msgspec.Struct, frozen=True):
    """Values to read: of all keys that begin with `key`, forward or backward, or of this key alone."""

    way: Literal["forward", "backward", "one"]
    key: bytes


def page_faults(file: Path) -> list[str]:
    """Describe what is wrong with the pages of a file; nobody may write meanwhile.

    The first two pages, of which the later one counts, have no checksum: a flipped bit in the number of the last
    transaction there undoes it, and this cannot be detected.
    """
    from lmdb.verify import VerifyError, verify

    try:
        return [str(fault) for fault in verify(str(file), subdir=False)]  # type: ignore[no-untyped-call]
    except VerifyError as fault:
        return [str(fault)]


def is_readable(file: Path) -> bool:
    """Return whether every page and every value of a file is there; nobody may write meanwhile."""
    return not page_faults(file) and _run("read", file)[0] == 0


def copy_readable(source: Path, target: Path) -> None:
    """Copy the values that can be read to a new LMDB file, as they are."""
    _make_probes([_Probe("forward", b"")], source, target)
    with _open(source) as old, _open(target) as new:
        if old.stat()["entries"] == new.stat()["entries"]:
            return
    _make_probes([_Probe(way, kind) for kind in _KINDS for way in ("forward", "backward")], source, target)
    with _open(target) as new, new.begin() as transaction, transaction.cursor() as cursor:
        keys = {bytes(key) for key in cursor.iternext(values=False)}
    names = {key[1:] for key in keys if key[1:] and key[:1] in _KINDS}
    missing = {kind + name for kind in _KINDS[1:] for name in names} - keys
    _make_probes([_Probe("one", key) for key in sorted(missing)], source, target)


def _make_probes(probes: list[_Probe], source: Path, target: Path) -> None:
    while probes:
        status, begun = _run("copy", source, target, sent=msgspec.msgpack.encode(probes))
        if status == 0:
            return
        probes = probes[max(1, begun) :]


def _run(task: str, *paths: Path, sent: bytes = b"") -> tuple[int, int]:
    """Run a task in a child; returns its exit status, and how many probes it has begun."""
    import subprocess  # here: a store that is not damaged needs none

    command = [sys.executable, "-m", "attar.store.salvage", task, *map(str, paths)]
    # The child finds the package where this process has found it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(command, input=sent, env=environment, capture_output=True, check=False)
    return ran.returncode, ran.stdout.count(b"\n")


def _open(file: Path, **options: Any) -> lmdb.Environment:
    return lmdb.open(str(file), subdir=False, lock=False, **({"readonly": True} | options))


def _read(file: Path) -> None:
    with _open(file) as opened, opened.begin(buffers=True) as transaction, transaction.cursor() as cursor:
        for _, value in cursor:
            zlib.crc32(value)


def _copy(source: Path, target: Path) -> None:
    probes = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[_Probe])
    size = 2 * source.stat().st_size + 2**24
    with _open(source) as old, _open(target, readonly=False, map_size=size, sync=False) as new:
        for probe in probes:
            os.write(1, b"\n")
            try:
                with old.begin(buffers=True) as transaction:
                    for key, value in _values(transaction, probe):
                        # Committed one by one: the next one may end this process.
                        with new.begin(write=True) as writing:
                            writing.put(key, bytes(value), overwrite=False)
            except lmdb.Error:
                continue


def _values(transaction: Any, probe: _Probe) -> Iterator[tuple[bytes, memoryview]]:
    key = probe.key
    if probe.way == "one":
        value = transaction.get(key)
        if value is not None:
            yield key, value
        return
    with transaction.cursor() as cursor:
        if probe.way == "forward":
            more, step = cursor.set_range(key), cursor.next
        else:
            more = cursor.prev() if cursor.set_range(bytes((key[0] + 1,))) else cursor.last()
            step = cursor.prev
        while more and bytes(cursor.key()).startswith(key):
            yield bytes(cursor.key()), cursor.value()
            more = step()


if __name__ == "__main__":
    task, *paths = sys.argv[1:]
    if task == "read":
        _read(*map(Path, paths))
    else:
        _copy(*map(Path, paths))
