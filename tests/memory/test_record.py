"""A memory's bytes say what they are, are read where they lie, and are refused when they are damaged."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import RecordError
from attar.memory.company import Company
from attar.memory.counting import count_company
from attar.memory.forms import FORMS_OF
from attar.memory.record import NUMBERS_AT
from attar.text import NameTable

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
        company=company_of(len(table), seed) if mechanism == "named" and seed % 2 else None,
    )


def company_of(count: int, seed: int) -> Company:
    """Names among words, those with ids from 9 up, in sentences of four."""
    ids = np.random.default_rng(seed).integers(3, 20, 40)
    ids[(ids >= 3 + count) & (ids < 9)] = 9
    names, ends = np.where(ids < 9, ids - 3, -1), np.arange(40) % 4 == 3
    return count_company(names, ids, ends, count=count, first=3, limit=6, common=0)


memories = st.builds(
    made,
    st.sampled_from(sorted(FORMS_OF)),
    k=st.integers(1, 9),
    count=st.integers(1, 5),
    tokens=st.integers(0, 12),
    names=st.lists(st.sampled_from(["Ann Lee", "Lee", "Bath", "Zoë", "Ann", "Bob Lee"]), max_size=5),
    state=st.integers(0, 5),
    seed=st.integers(0, 99),
)
SAMPLE = made("gated", 3, 0, 4, ["Ann Lee"], 2, 0)
IN_COMPANY = made("named", 3, 0, 4, ["Ann Lee", "Bath"], 2, 1)
SAMPLES = pytest.mark.parametrize("sample", [SAMPLE, IN_COMPANY], ids=["alone", "with company"])


def resealed(written: bytearray) -> bytes:
    """The bytes with the checksum that they should have."""
    struct.pack_into("<I", written, 4, zlib.crc32(written[8:]))
    return bytes(written)


@settings(deadline=None)
@given(memories, st.sampled_from(PRECISIONS))
def test_what_was_written_is_read(memory, precision):
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


def test_numbers_lie_in_the_buffer_itself_at_a_multiple_of_64():
    buffer = bytearray(SAMPLE.to_bytes())
    read = Memory.from_bytes(buffer)
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    assert NUMBERS_AT % 64 == 0
    assert read.numbers.ctypes.data == start + NUMBERS_AT
    assert not read.numbers.flags.writeable


def test_names_are_decoded_when_they_are_asked_for():
    read = Memory.from_bytes(SAMPLE.to_bytes())
    assert "names" not in vars(read)
    assert read.names.resolve(["Lee"]) == 0
    assert read.names is read.names


def test_names_learnt_since_are_written():
    read = Memory.from_bytes(SAMPLE.to_bytes())
    read.names.learn(["Bath"])
    assert Memory.from_bytes(read.to_bytes()).names.names == ["Ann Lee", "Bath"]


def test_the_layout_does_not_change():
    memory = Memory.of("linear", [[1.0, 0], [2.0, 3.0]], tokens=5, reader="r", state=[4.0])
    names = NameTable().to_bytes()
    header = struct.pack("<HBBBxHIIIIQ24x", 1, 0, 0, 2, 1, 2, 0, 1, len(names), 5)
    body = header + np.array([1, 2, 3, 4], "<f4").tobytes() + b"r" + names
    assert memory.to_bytes() == b"attm" + struct.pack("<I", zlib.crc32(body)) + body


def test_a_record_with_company_is_the_one_without_and_it_behind():
    alone, written = replace(IN_COMPANY, company=None).to_bytes(), IN_COMPANY.to_bytes()
    company = IN_COMPANY.company.to_bytes()
    header = bytearray(alone[8:NUMBERS_AT])
    struct.pack_into("<H", header, 0, 2)
    struct.pack_into("<I", header, 32, len(company))
    body = bytes(header) + alone[NUMBERS_AT:] + bytes(-len(alone) % 4) + company
    assert written == b"attm" + struct.pack("<I", zlib.crc32(body)) + body
    assert alone[8:10] == b"\1\0"


def test_company_lies_in_the_buffer_itself_and_is_decoded_when_it_is_asked_for():
    buffer = bytearray(IN_COMPANY.to_bytes())
    read = Memory.from_bytes(buffer, check=False)
    assert "company" not in vars(read)
    assert read.company == IN_COMPANY.company
    assert read.company is read.company
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    assert start < read.company.ids.ctypes.data < start + len(buffer)
    assert (read.company.starts.ctypes.data - start) % 4 == 0


@settings(deadline=None)
@given(st.data(), st.sampled_from([SAMPLE, IN_COMPANY]))
def test_a_flipped_bit_is_noticed(data, sample):
    written = bytearray(sample.to_bytes())
    bit = data.draw(st.integers(0, 8 * len(written) - 1))
    written[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError, match="memory: expected"):
        Memory.from_bytes(bytes(written))


@SAMPLES
@pytest.mark.parametrize("check", [True, False])
def test_a_record_cut_short_is_noticed_wherever_it_ends(check, sample):
    written = sample.to_bytes()
    for length in range(len(written)):
        with pytest.raises(RecordError, match="cut"):
            Memory.from_bytes(written[:length], check=check)


@SAMPLES
def test_bytes_behind_the_record_are_noticed(sample):
    with pytest.raises(RecordError, match="as its header says"):
        Memory.from_bytes(sample.to_bytes() + b"x", check=False)


@pytest.mark.parametrize(
    ("sample", "version"),
    [(SAMPLE, 2), (IN_COMPANY, 1)],
    ids=["none where some is said", "some where none is"],
)
def test_company_belongs_to_its_version(sample, version):
    written = bytearray(sample.to_bytes())
    written[8] = version
    with pytest.raises(RecordError, match="company in version 2, of names, got"):
        Memory.from_bytes(resealed(written))


def test_company_of_a_form_without_names_is_refused():
    written = bytearray(SAMPLE.to_bytes())
    written[8], written[40] = 2, 1
    with pytest.raises(RecordError, match="got 1 bytes in a record of version 2, triangle"):
        Memory.from_bytes(resealed(written))


@pytest.mark.parametrize("check", [True, False])
def test_company_of_other_names_than_have_vectors_is_refused(check):
    # The last vector's 12 bytes are said to be three more numbers of the state.
    written = bytearray(IN_COMPANY.to_bytes())
    struct.pack_into("<I", written, 20, 1)
    struct.pack_into("<I", written, 24, 5)
    with pytest.raises(RecordError, match="company of 1 names, as it has vectors, got of 2"):
        Memory.from_bytes(resealed(written), check=check).company  # noqa: B018


def test_damaged_company_is_refused_whatever_the_checksum_says():
    written = bytearray(IN_COMPANY.to_bytes())
    written[-1] = 0
    with pytest.raises(RecordError, match="company: expected counts from 1 up, got 0"):
        Memory.from_bytes(resealed(written))


def test_another_file_is_refused():
    with pytest.raises(RecordError, match="begins with b'attm', got b'PK"):
        Memory.from_bytes(b"PK\x03\x04" + bytes(99))


def test_a_later_version_is_refused_with_a_remedy():
    written = bytearray(SAMPLE.to_bytes())
    written[8] = 3
    with pytest.raises(RecordError, match="version 3; a later Attar wrote it"):
        Memory.from_bytes(resealed(written))


@pytest.mark.parametrize("place", [10, 11, 12], ids=["form", "type of number", "mechanism"])
def test_an_unknown_code_is_refused(place):
    written = bytearray(SAMPLE.to_bytes())
    written[place] = 99
    with pytest.raises(RecordError, match="99"):
        Memory.from_bytes(resealed(written))


def test_a_form_that_its_mechanism_does_not_have_is_refused():
    written = bytearray(made("softmax", 3, 0, 4, [], 0, 0).to_bytes())
    written[12] = 7
    with pytest.raises(RecordError, match="hidden"):
        Memory.from_bytes(resealed(written))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_nothing_but_a_format_error_comes_of_any_bytes(noise):
    for written in (noise, b"attm" + noise, SAMPLE.to_bytes()[:10] + noise):
        with pytest.raises(RecordError):
            Memory.from_bytes(written, check=False)
