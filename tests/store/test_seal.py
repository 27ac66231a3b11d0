"""An envelope gives back what was put in, or one line that says why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import RecordError
from attar.store.seal import PADDING, VERSION, payload_of, seal, version_of

PAYLOAD = bytes(range(50))


@given(st.sampled_from(sorted(PADDING)), st.binary())
def test_what_was_sealed_comes_out(kind: bytes, payload: bytes) -> None:
    assert bytes(payload_of(kind, seal(kind, payload), "emma")) == payload


def test_a_memory_starts_where_a_cache_line_does() -> None:
    page_header = 16
    assert (page_header + len(seal(b"m", b""))) % 64 == 0


@pytest.mark.parametrize("kind", sorted(PADDING))
def test_every_cut_is_noticed(kind: bytes) -> None:
    value = seal(kind, PAYLOAD)
    for length in range(len(value)):
        with pytest.raises(RecordError, match="a whole record"):
            payload_of(kind, value[:length], "emma")


@pytest.mark.parametrize("kind", sorted(PADDING))
def test_every_flipped_bit_is_noticed_and_never_taken_for_a_newer_version(kind: bytes) -> None:
    value = seal(kind, PAYLOAD)
    for bit in range(8 * len(value)):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError, match="a whole record"):
            payload_of(kind, bytes(flipped), "emma")


def test_another_kind_is_not_taken_for_this_one() -> None:
    with pytest.raises(RecordError, match="other bytes"):
        payload_of(b"f", seal(b"t", PAYLOAD), "emma")


@pytest.mark.parametrize(("version", "remedy"), [(VERSION + 1, "update attar"), (VERSION - 1, "other bytes")])
def test_another_version_is_named(version: int, remedy: str) -> None:
    value = seal(b"f", PAYLOAD, version=version)
    assert version_of(value) == version
    with pytest.raises(RecordError, match=remedy):
        payload_of(b"f", value, "emma")


def test_a_line_stays_one_line_whatever_the_name() -> None:
    with pytest.raises(RecordError) as caught:
        payload_of(b"f", b"", "a\nb" * 10_000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
