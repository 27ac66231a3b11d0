"""Memories are written as bytes and read without copying; damaged bytes are refused."""

import struct
import zlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import RecordError
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import FORMS, FORMS_OF, INDEXED
from attar.memory.record import NUMBERS_AT
from attar.text.name_table import NameTable

PRECISIONS = ["float32", "float16", "int8"]


def made(mechanism: str, k: int, count: int, tokens: int, names: list[str], state: int, seed: int) -> Memory:
    rng, table = np.random.default_rng(seed), NameTable.of(*names)
    shapes = {"none": (k,), "softmax": (tokens, k), "keyed": (k, count), "named": (count, k)}
    numbers = rng.standard_normal(shapes.get(mechanism, (k, k)))
    if mechanism not in shapes:
        numbers = numbers @ numbers.T
    return Memory.of(
        mechanism,
        numbers,
        tokens=tokens,
        reader=f"reader ü {seed}",
        names=table,
        state=rng.standard_normal(state),
        cooccurrence=counts_of(len(table), seed) if mechanism == "named" and seed % 2 else None,
    )


def counts_of(count: int, seed: int) -> Cooccurrence:
    """The counts of random sentences of four tokens; words have ids from 9 up."""
    ids = np.random.default_rng(seed).integers(3, 20, 40)
    ids[(ids >= 3 + count) & (ids < 9)] = 9
    names, ends = np.where(ids < 9, ids - 3, -1), np.arange(40) % 4 == 3
    (counts,) = Cooccurrence.count(names, ids, ends, [40], counts=[count], first=3, limit=6, common=0)
    return counts


memories = st.builds(
    made,
    st.sampled_from(sorted(set(FORMS_OF) - {*INDEXED})),  # which have an index: see test_phrases.py
    k=st.integers(1, 9),
    count=st.integers(1, 5),
    tokens=st.integers(0, 12),
    names=st.lists(st.sampled_from(["Ann Lee", "Lee", "Bath", "Zoë", "Ann", "Bob Lee"]), max_size=5),
    state=st.integers(0, 5),
    seed=st.integers(0, 99),
)
SAMPLE = made("gated", 3, 0, 4, ["Ann Lee"], 2, 0)
WITH_COUNTS = made("named", 3, 0, 4, ["Ann Lee", "Bath"], 2, 1)
SAMPLES = pytest.mark.parametrize("sample", [SAMPLE, WITH_COUNTS], ids=["version 1", "with co-occurrence"])


def with_checksum(written: bytearray) -> bytes:
    """The bytes with a valid checksum."""
    struct.pack_into("<I", written, 4, zlib.crc32(written[8:]))
    return bytes(written)


@settings(deadline=None)
@given(memories, st.sampled_from(PRECISIONS))
def test_a_written_memory_is_read_equal(memory, precision):
    memory = memory.astype(precision)
    written = memory.to_bytes()
    for check in (True, False):
        read = Memory.from_bytes(written, check=check)
        assert read == memory
        assert read.to_bytes() == written


def test_states_are_read_as_states():
    memory = Memory.of_states(np.ones((2, 7)), reader="r").astype("int8")
    assert Memory.from_bytes(memory.to_bytes()) == memory


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_any_buffer_is_read(kind):
    assert Memory.from_bytes(kind(SAMPLE.to_bytes())) == SAMPLE


def test_numbers_are_a_view_of_the_buffer_at_a_multiple_of_64():
    buffer = bytearray(SAMPLE.to_bytes())
    read = Memory.from_bytes(buffer)
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    assert NUMBERS_AT % 64 == 0
    assert read.numbers.ctypes.data == start + NUMBERS_AT
    assert not read.numbers.flags.writeable


def test_names_are_decoded_on_first_use():
    read = Memory.from_bytes(SAMPLE.to_bytes())
    assert "names" not in vars(read)
    assert read.names.resolve(["Lee"]) == 0
    assert read.names is read.names


def test_names_learned_after_reading_are_written():
    read = Memory.from_bytes(SAMPLE.to_bytes())
    read.names.learn(["Bath"])
    assert Memory.from_bytes(read.to_bytes()).names.names == ["Ann Lee", "Bath"]


def test_the_layout_does_not_change():
    memory = Memory.of("linear", [[1.0, 0], [2.0, 3.0]], tokens=5, reader="r", state=[4.0])
    names = NameTable().to_bytes()
    header = struct.pack("<HBBBxHIIIIQ24x", 1, 0, 0, 2, 1, 2, 0, 1, len(names), 5)
    body = header + np.array([1, 2, 3, 4], "<f4").tobytes() + b"r" + names
    assert memory.to_bytes() == b"attm" + struct.pack("<I", zlib.crc32(body)) + body


def test_version_2_is_version_1_followed_by_cooccurrence_counts():
    alone, written = replace(WITH_COUNTS, cooccurrence=None).to_bytes(), WITH_COUNTS.to_bytes()
    counts = WITH_COUNTS.cooccurrence.to_bytes()
    header = bytearray(alone[8:NUMBERS_AT])
    struct.pack_into("<H", header, 0, 2)
    struct.pack_into("<I", header, 32, len(counts))
    body = bytes(header) + alone[NUMBERS_AT:] + bytes(-len(alone) % 4) + counts
    assert written == b"attm" + struct.pack("<I", zlib.crc32(body)) + body
    assert alone[8:10] == b"\1\0"


def test_cooccurrence_counts_are_a_view_of_the_buffer_decoded_on_first_use():
    buffer = bytearray(WITH_COUNTS.to_bytes())
    read = Memory.from_bytes(buffer, check=False)
    assert "cooccurrence" not in vars(read)
    assert read.cooccurrence == WITH_COUNTS.cooccurrence
    assert read.cooccurrence is read.cooccurrence
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    assert start < read.cooccurrence.ids.ctypes.data < start + len(buffer)
    assert (read.cooccurrence.starts.ctypes.data - start) % 4 == 0


@settings(deadline=None)
@given(st.data(), st.sampled_from([SAMPLE, WITH_COUNTS]))
def test_a_flipped_bit_is_detected(data, sample):
    written = bytearray(sample.to_bytes())
    bit = data.draw(st.integers(0, 8 * len(written) - 1))
    written[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError, match="memory: expected"):
        Memory.from_bytes(bytes(written))


@SAMPLES
@pytest.mark.parametrize("check", [True, False])
def test_a_truncated_record_is_detected_at_every_length(check, sample):
    written = sample.to_bytes()
    for length in range(len(written)):
        with pytest.raises(RecordError, match="cut"):
            Memory.from_bytes(written[:length], check=check)


@SAMPLES
def test_extra_bytes_after_the_record_are_detected(sample):
    with pytest.raises(RecordError, match="as its header says"):
        Memory.from_bytes(sample.to_bytes() + b"x", check=False)


@pytest.mark.parametrize(
    ("sample", "version"),
    [(SAMPLE, 2), (WITH_COUNTS, 1), (SAMPLE, 3), (WITH_COUNTS, 3)],
    ids=["2 without counts", "1 with counts", "3 without phrases", "3 with counts"],
)
def test_the_version_must_fit_the_presence_of_cooccurrence_counts_and_phrases(sample, version):
    written = bytearray(sample.to_bytes())
    written[8] = version
    with pytest.raises(RecordError, match="co-occurrence in version 2 and phrases in version 3 only, got"):
        Memory.from_bytes(with_checksum(written))


def test_cooccurrence_counts_in_another_form_than_names_are_refused():
    written = bytearray(SAMPLE.to_bytes())
    written[8], written[40] = 2, 1
    with pytest.raises(RecordError, match="got 1 bytes in a record of version 2, form triangle"):
        Memory.from_bytes(with_checksum(written))


@pytest.mark.parametrize("check", [True, False])
def test_cooccurrence_counts_of_another_number_of_names_are_refused(check):
    # The header now counts the 12 bytes of the last vector as three numbers of the state.
    written = bytearray(WITH_COUNTS.to_bytes())
    struct.pack_into("<I", written, 20, 1)
    struct.pack_into("<I", written, 24, 5)
    with pytest.raises(RecordError, match="co-occurrence counts of 1 names, got those of 2"):
        Memory.from_bytes(with_checksum(written), check=check).cooccurrence  # noqa: B018


def test_damaged_cooccurrence_counts_with_a_valid_checksum_are_refused():
    written = bytearray(WITH_COUNTS.to_bytes())
    written[-1] = 0
    with pytest.raises(RecordError, match="co-occurrence: expected counts from 1 up, got 0"):
        Memory.from_bytes(with_checksum(written))


def test_another_file_is_refused():
    with pytest.raises(RecordError, match="begins with b'attm', got b'PK"):
        Memory.from_bytes(b"PK\x03\x04" + bytes(99))


def test_a_newer_version_is_refused_with_a_remedy():
    written = bytearray(SAMPLE.to_bytes())
    written[8] = 4
    with pytest.raises(RecordError, match="version 4; it was written by a newer Attar"):
        Memory.from_bytes(with_checksum(written))


@pytest.mark.parametrize("place", [10, 11, 12], ids=["form", "precision", "mechanism"])
def test_an_unknown_code_is_refused(place):
    written = bytearray(SAMPLE.to_bytes())
    written[place] = 99
    with pytest.raises(RecordError, match="99"):
        Memory.from_bytes(with_checksum(written))


def test_a_form_that_its_mechanism_does_not_have_is_refused():
    written = bytearray(made("softmax", 3, 0, 4, [], 0, 0).to_bytes())
    written[12] = 7
    with pytest.raises(RecordError, match="hidden"):
        Memory.from_bytes(with_checksum(written))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_give_a_record_error(noise):
    for written in (noise, b"attm" + noise, SAMPLE.to_bytes()[:10] + noise):
        with pytest.raises(RecordError):
            Memory.from_bytes(written, check=False)


@pytest.mark.parametrize("mechanism", ["named", "softmax", "linear", "keyed"])
def test_a_size_that_no_numbers_vouch_for_is_refused_before_anything_is_allocated(mechanism: str) -> None:
    form = {"linear": "states"}.get(mechanism, FORMS_OF[mechanism][0])
    size = 2**32 - 1
    body = struct.pack(
        "<HBBBxHIIIIQI20x", 1, FORMS.index(form), 0, list(FORMS_OF).index(mechanism), 0, size, 0, 0, 4, 0, 0
    )
    body += msgspec.msgpack.encode((9, [], {}, {}))
    data = b"attm" + struct.pack("<I", zlib.crc32(body)) + body
    with pytest.raises(RecordError, match="a size of at most 16384 without numbers, got 4294967295"):
        Memory.from_bytes(data)


@pytest.mark.parametrize("place", ["numbers", "state", "scales"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_found(place: str, number: float) -> None:
    memory = SAMPLE.astype("int8") if place == "scales" else SAMPLE
    array = getattr(memory, place).copy()
    array[0] = number
    memory.check_contents()
    with pytest.raises(RecordError, match="expected finite numbers"):
        Memory.from_bytes(replace(memory, **{place: array}).to_bytes()).check_contents()


def test_parts_of_names_that_cannot_be_decoded_are_found() -> None:
    table = NameTable.from_bytes(msgspec.msgpack.encode((9, ["Ann"], {"ann": 0}, {"ann": [7]})))
    memory = Memory.from_bytes(replace(SAMPLE, names=table).to_bytes())
    with pytest.raises(RecordError, match="table of names"):
        memory.check_contents()
