"""A company's bytes say what they are, are read where they lie, and are refused when they are damaged."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import RecordError
from attar.memory.company import Company
from attar.memory.counting import count_company

FIRST, LIMIT = 2, 5


def counted(sentences: list[list[int]], count: int = 3) -> Company:
    ids = [token for sentence in sentences for token in sentence]
    ends = [place == len(sentence) - 1 for sentence in sentences for place in range(len(sentence))]
    names = [token - FIRST if token < FIRST + LIMIT else -1 for token in ids]
    return count_company(names, ids, ends, count=count, first=FIRST, limit=LIMIT, common=0)


def written(*, starts=(0, 2, 2, 3), ids=(2, 10, 4), times=(1, 1, 1), kinds="<u2 u1", head=()) -> bytes:
    """The bytes of any entries, whether a company can have them or not."""
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


SAMPLE = counted([[2, 10], [4]])
tokens = st.one_of(st.integers(FIRST, FIRST + 2), st.integers(7, 20), st.integers(65_530, 65_540))
companies = st.builds(
    lambda sentences, times: counted(sentences * times),
    st.lists(st.lists(tokens, min_size=1, max_size=5), max_size=5),
    st.sampled_from([1, 2, 300]),
)


@settings(deadline=None)
@given(companies, st.booleans())
def test_what_was_written_is_read(company, check):
    read = Company.from_bytes(company.to_bytes(), check=check)
    assert read == company
    assert (read.ids.dtype, read.times.dtype) == (company.ids.dtype, company.times.dtype)
    assert read.to_bytes() == company.to_bytes()


def test_the_layout_does_not_change():
    assert SAMPLE.to_bytes() == written()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_any_buffer_is_read(kind):
    assert Company.from_bytes(kind(SAMPLE.to_bytes())) == SAMPLE


def test_counts_lie_in_the_buffer_itself():
    buffer = bytearray(SAMPLE.to_bytes())
    read = Company.from_bytes(buffer)
    begin = np.frombuffer(buffer, np.uint8).ctypes.data
    assert [array.ctypes.data - begin for array in (read.starts, read.ids, read.times)] == [20, 36, 44]
    assert not read.times.flags.writeable


def test_what_was_read_can_be_added_to():
    read = Company.from_bytes(SAMPLE.to_bytes())
    assert read.added(read, range(3), 3) == counted([[2, 10], [4]] * 2)


@pytest.mark.parametrize("check", [True, False])
def test_bytes_cut_short_or_too_many_are_noticed(check):
    whole = SAMPLE.to_bytes()
    for damaged in [whole[:length] for length in range(len(whole))] + [whole + b"x"]:
        with pytest.raises(RecordError, match=r"company: expected .*; the record is damaged"):
            Company.from_bytes(damaged, check=check)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ({"starts": (0, 2, 1, 3)}, "names that share 3 entries in order"),
        ({"starts": (1, 2, 2, 3)}, "names that share 3 entries in order"),
        ({"starts": (0, 2, 2, 4)}, "names that share 3 entries in order"),
        ({"head": (FIRST, LIMIT, 3, 3, 3, 1)}, "ids of 2 or 4 bytes and counts of 1, 2 or 4, got 3 and 1"),
        ({"head": (FIRST, LIMIT, 3, 3, 2, 0)}, "got 2 and 0"),
        ({"head": (FIRST, LIMIT, 2**32 - 1, 3, 2, 1)}, "as its header says"),
    ],
)
def test_sizes_that_do_not_fit_are_noticed_without_a_check_too(damage, line):
    with pytest.raises(RecordError, match=line):
        Company.from_bytes(written(**damage), check=False)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ({"ids": (10, 2, 4)}, "ids that ascend within a name"),
        ({"ids": (10, 10, 4)}, "ids that ascend within a name"),
        ({"ids": (1, 10, 4)}, "ids from 2 up, got 1"),
        ({"ids": (2, 10, 6)}, "ids of the 3 names or of words, got 6"),
        ({"starts": (0, 0, 0, 0, 0, 0, 3), "ids": (2, 10, 11)}, "at most 5 names, got 6"),
        ({"times": (1, 0, 1)}, "counts from 1 up, got 0"),
        ({"kinds": "<i4 u1"}, "as few bytes as hold them, got int32 and uint8"),
        ({"kinds": "<u2 <u2"}, "as few bytes as hold them, got uint16 and uint16"),
    ],
    ids=[
        "descending",
        "twice",
        "padding",
        "a name not met",
        "too many names",
        "zero",
        "wide ids",
        "wide counts",
    ],
)
def test_entries_that_no_counting_gives_are_refused(damage, line):
    with pytest.raises(RecordError, match=line) as caught:
        Company.from_bytes(written(**damage))
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(st.binary(max_size=99), st.booleans())
def test_nothing_but_a_format_error_comes_of_any_bytes(noise, check):
    for damaged in (noise, written()[:12] + noise, written()[:20] + noise):
        with contextlib.suppress(RecordError):
            Company.from_bytes(damaged, check=check)
