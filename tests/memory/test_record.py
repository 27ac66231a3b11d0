"""A memory's bytes say what they are, are read where they lie, and are refused when they are damaged."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import FormatError
from attar.memory.forms import FORMS_OF
from attar.memory.record import NUMBERS_AT
from attar.text.names import NameTable

PRECISIONS = ["float32", "float16", "int8"]


def made(mechanism: str, k: int, count: int, tokens: int, names: list[str], state: int, seed: int) -> Memory:
    rng, table = np.random.default_rng(seed), NameTable()
    for name in names:
        table.learn(name.split())
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
    )


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


@settings(deadline=None)
@given(st.integers(0, 8 * len(SAMPLE.to_bytes()) - 1))
def test_a_flipped_bit_is_noticed(bit):
    written = bytearray(SAMPLE.to_bytes())
    written[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError, match="memory: expected"):
        Memory.from_bytes(bytes(written))


@pytest.mark.parametrize("check", [True, False])
def test_a_record_cut_short_is_noticed_wherever_it_ends(check):
    written = SAMPLE.to_bytes()
    for length in range(len(written)):
        with pytest.raises(FormatError, match="cut"):
            Memory.from_bytes(written[:length], check=check)


def test_bytes_behind_the_record_are_noticed():
    with pytest.raises(FormatError, match="as its header says"):
        Memory.from_bytes(SAMPLE.to_bytes() + b"x", check=False)


def test_another_file_is_refused():
    with pytest.raises(FormatError, match="begins with b'attm', got b'PK"):
        Memory.from_bytes(b"PK\x03\x04" + bytes(99))


def test_a_later_version_is_refused_with_a_remedy():
    written = bytearray(SAMPLE.to_bytes())
    written[8] = 2
    with pytest.raises(FormatError, match="version 2; a later Attar wrote it"):
        Memory.from_bytes(resealed(written))


@pytest.mark.parametrize("place", [10, 11, 12], ids=["form", "type of number", "mechanism"])
def test_an_unknown_code_is_refused(place):
    written = bytearray(SAMPLE.to_bytes())
    written[place] = 99
    with pytest.raises(FormatError, match="99"):
        Memory.from_bytes(resealed(written))


def test_a_form_that_its_mechanism_does_not_have_is_refused():
    written = bytearray(made("softmax", 3, 0, 4, [], 0, 0).to_bytes())
    written[12] = 7
    with pytest.raises(FormatError, match="hidden"):
        Memory.from_bytes(resealed(written))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_nothing_but_a_format_error_comes_of_any_bytes(noise):
    for written in (noise, b"attm" + noise, SAMPLE.to_bytes()[:10] + noise):
        with pytest.raises(FormatError):
            Memory.from_bytes(written, check=False)
