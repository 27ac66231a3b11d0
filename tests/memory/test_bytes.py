"""Memories as bytes: read as they were written; damaged bytes are refused in one line."""

import struct
import zlib

import numpy as np
import pytest

from attar.errors import OptionError, RecordError
from attar.memory import memory as memories
from attar.memory.memory import Memory, wrap
from tests.memory.made import memory_of

TEXT = "Ann Lee left. Zoë 🙂 ran \ud800 home."
SAMPLES = [memory_of(TEXT), memory_of(TEXT, form="ridge", reader="reader ü"), memory_of("")]
SAMPLE = pytest.mark.parametrize("sample", SAMPLES, ids=["phrases", "ridge", "empty"])
HEADER = 16


def with_checksum(written: bytes) -> bytes:
    """Bytes with the length and the checksum that fit them."""
    length = struct.pack("<I", len(written) - HEADER)
    checksum = zlib.crc32(written[HEADER:], zlib.crc32(written[:8] + length))
    return written[:8] + struct.pack("<I", checksum) + length + written[HEADER:]


def changed(written: bytes, at: int, form: str, number: int) -> bytes:
    data = bytearray(written)
    struct.pack_into(form, data, at, number)
    return with_checksum(bytes(data))


@SAMPLE
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_a_written_memory_is_read_equal_from_any_buffer(sample, kind):
    read = Memory.from_bytes(kind(sample.to_bytes()))
    assert read == sample
    assert read.to_bytes() == sample.to_bytes()


@SAMPLE
def test_any_flipped_bit_is_refused(sample):
    written = sample.to_bytes()
    for bit in np.random.default_rng(2).choice(8 * len(written), 500, replace=False):
        data = bytearray(written)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError, match="damaged"):
            Memory.from_bytes(bytes(data))


@SAMPLE
def test_a_truncated_or_longer_record_is_refused_with_any_checksum(sample):
    written = sample.to_bytes()
    for data in [written[:length] for length in range(len(written))] + [written + b"x"]:
        with pytest.raises(RecordError):
            Memory.from_bytes(data)
        if len(data) >= HEADER:
            with pytest.raises(RecordError):
                Memory.from_bytes(with_checksum(data))


@pytest.mark.parametrize(
    ("at", "form", "number", "line"),
    [
        (HEADER, "<B", 9, "memory is damaged"),
        (HEADER + 2, "<H", 60_000, "memory is damaged"),
        (HEADER + 4, "<I", 0, "memory is damaged"),
        (HEADER + 4, "<I", 2**31, "memory is damaged"),
        (HEADER + 8, "<I", 3, "memory is damaged"),
        (4, "<H", 2, "memory was written by a newer Attar, in version 2; update attar"),
        (6, "<B", ord("f"), "memory is a record of another kind"),
    ],
    ids=["form", "reader's length", "no size", "size", "count", "version", "kind"],
)
def test_what_no_memory_has_is_refused_with_a_checksum_that_fits(at, form, number, line):
    with pytest.raises(RecordError, match=line) as refused:
        Memory.from_bytes(changed(SAMPLES[0].to_bytes(), at, form, number))
    assert "\n" not in str(refused.value)


def test_scales_that_are_not_finite_are_refused():
    written = SAMPLES[0].to_bytes()
    at = written.index(SAMPLES[0].scales.tobytes())
    with pytest.raises(RecordError, match="finite numbers"):
        Memory.from_bytes(changed(written, at, "<f", float("nan")))


def test_a_size_that_no_numbers_vouch_for_is_refused_before_anything_is_allocated():
    with pytest.raises(RecordError, match="a size of 4294967295 without numbers"):
        Memory.from_bytes(changed(SAMPLES[2].to_bytes(), HEADER + 4, "<I", 2**32 - 1))


def test_the_error_names_what_is_damaged():
    with pytest.raises(RecordError, match="memory of 'emma' is damaged: 3 bytes are left; add the document"):
        Memory.from_bytes(b"abc", "emma")
    with pytest.raises(RecordError, match="is damaged, or not a record of Attar"):
        Memory.from_bytes(b"PK\x03\x04" + bytes(99))


def test_a_payload_that_an_envelope_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr(memories, "MOST_BYTES", 100)
    with pytest.raises(
        OptionError, match="text of 'a': expected at most 100 bytes, got 101; split the document"
    ):
        wrap(b"t", bytes(101), "text of 'a'")
