"""Co-occurrence counts are written as bytes and read without copying; damaged bytes are refused."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import RecordError
from attar.memory.cooccurrence import Cooccurrence

FIRST, LIMIT = 2, 5


def counted(sentences: list[list[int]], count: int = 3) -> Cooccurrence:
    """The counts of a text, given as sentences of ids."""
    ids = [token for sentence in sentences for token in sentence]
    ends = [place == len(sentence) - 1 for sentence in sentences for place in range(len(sentence))]
    names = [token - FIRST if token < FIRST + LIMIT else -1 for token in ids]
    options = {"counts": [count], "first": FIRST, "limit": LIMIT, "common": 0}
    return Cooccurrence.count(names, ids, ends, [len(ids)], **options)[0]


def counts_bytes(*, starts=(0, 2, 2, 3), ids=(2, 10, 4), times=(1, 1, 1), kinds="<u2 u1", head=()) -> bytes:
    """The bytes of any entries, valid or not."""
    id_kind, times_kind = map(np.dtype, kinds.split())
    fields = head or (FIRST, LIMIT, len(starts) - 1, len(ids), id_kind.itemsize, times_kind.itemsize)
    body = np.array(ids, id_kind).tobytes()
    return (
        struct.pack("<IIIIBBxx", *fields)
        + np.array(starts, "<i4").tobytes()
        + body
        + bytes(-len(body) % 4)
        + np.array(times, times_kind).tobytes()
    )


COUNTS = counted([[2, 10], [4]])
tokens = st.one_of(st.integers(FIRST, FIRST + 2), st.integers(7, 20), st.integers(65_530, 65_540))
some_counts = st.builds(
    lambda sentences, times: counted(sentences * times),
    st.lists(st.lists(tokens, min_size=1, max_size=5), max_size=5),
    st.sampled_from([1, 2, 300]),
)


@settings(deadline=None)
@given(some_counts, st.booleans())
def test_written_counts_are_read_equal(counts, check):
    read = Cooccurrence.from_bytes(counts.to_bytes(), check=check)
    assert read == counts
    assert (read.ids.dtype, read.times.dtype) == (counts.ids.dtype, counts.times.dtype)
    assert read.to_bytes() == counts.to_bytes()


def test_the_layout_of_counts_does_not_change():
    assert COUNTS.to_bytes() == counts_bytes()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_counts_are_read_from_any_buffer(kind):
    assert Cooccurrence.from_bytes(kind(COUNTS.to_bytes())) == COUNTS


def test_counts_are_views_of_the_buffer():
    buffer = bytearray(COUNTS.to_bytes())
    read = Cooccurrence.from_bytes(buffer)
    begin = np.frombuffer(buffer, np.uint8).ctypes.data
    assert [array.ctypes.data - begin for array in (read.starts, read.ids, read.times)] == [20, 36, 44]
    assert not read.times.flags.writeable


def test_counts_that_were_read_can_be_added():
    read = Cooccurrence.from_bytes(COUNTS.to_bytes())
    assert read.add(read, range(3), 3) == counted([[2, 10], [4]] * 2)


@pytest.mark.parametrize("check", [True, False])
def test_counts_with_too_few_or_too_many_bytes_are_refused(check):
    whole = COUNTS.to_bytes()
    for damaged in [whole[:length] for length in range(len(whole))] + [whole + b"x"]:
        with pytest.raises(RecordError, match=r"co-occurrence: expected .*; the record is damaged"):
            Cooccurrence.from_bytes(damaged, check=check)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ({"starts": (0, 2, 1, 3)}, "ascending starts from 0 to 3"),
        ({"starts": (1, 2, 2, 3)}, "ascending starts from 0 to 3"),
        ({"starts": (0, 2, 2, 4)}, "ascending starts from 0 to 3"),
        ({"head": (FIRST, LIMIT, 3, 3, 3, 1)}, "ids of 2 or 4 bytes and counts of 1, 2 or 4, got 3 and 1"),
        ({"head": (FIRST, LIMIT, 3, 3, 2, 0)}, "got 2 and 0"),
        ({"head": (FIRST, LIMIT, 2**32 - 1, 3, 2, 1)}, "as its header says"),
    ],
)
def test_inconsistent_sizes_of_counts_are_refused_without_a_check_too(damage, line):
    with pytest.raises(RecordError, match=line):
        Cooccurrence.from_bytes(counts_bytes(**damage), check=False)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ({"ids": (10, 2, 4)}, "ids that ascend within a name"),
        ({"ids": (10, 10, 4)}, "ids that ascend within a name"),
        ({"ids": (1, 10, 4)}, "ids from 2 up, got 1"),
        ({"ids": (2, 10, 6)}, "ids of the 3 names or of words, got 6"),
        ({"starts": (0, 0, 0, 0, 0, 0, 3), "ids": (2, 10, 11)}, "at most 5 names, got 6"),
        ({"times": (1, 0, 1)}, "counts from 1 up, got 0"),
        ({"kinds": "<i4 u1"}, "the smallest types that hold the ids and counts, got int32 and uint8"),
        ({"kinds": "<u2 <u2"}, "the smallest types that hold the ids and counts, got uint16 and uint16"),
    ],
    ids=[
        "descending",
        "twice",
        "an id below the names",
        "an unknown name",
        "too many names",
        "zero",
        "wide ids",
        "wide counts",
    ],
)
def test_impossible_entries_are_refused(damage, line):
    with pytest.raises(RecordError, match=line) as caught:
        Cooccurrence.from_bytes(counts_bytes(**damage))
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(st.binary(max_size=99), st.booleans())
def test_random_bytes_of_counts_give_at_most_a_record_error(noise, check):
    for damaged in (noise, counts_bytes()[:12] + noise, counts_bytes()[:20] + noise):
        with contextlib.suppress(RecordError):
            Cooccurrence.from_bytes(damaged, check=check)
