"""Statistics that were saved give the same projection.

A learned map of states belongs to the statistics: it is saved with them, and both are fitted to mapped states.
"""

import msgspec
import numpy as np
import pytest

from attar.errors import FormatError, OptionError, ShapeError
from attar.search.signatures import Sums
from attar.search.statistics import StateMap, Statistics, default_statistics
from tests.search.conftest import PIECES, SIZE, fitted

# Of the map of states.
HIDDEN, OUT = 9, 12


def test_saved_statistics_give_the_same_projection_and_digest(statistics, tmp_path):
    (tmp_path / "search.bin").write_bytes(statistics.data)
    loaded = Statistics.load(tmp_path / "search.bin")
    assert loaded.data == statistics.data
    ours, theirs = statistics.projection(8), loaded.projection(8)
    np.testing.assert_array_equal(ours.directions, theirs.directions)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    assert Statistics.from_bytes(loaded.data).data == loaded.data


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
def test_cut_files_are_refused(statistics, cut):
    with pytest.raises(FormatError, match="statistics"):
        Statistics.from_bytes(statistics.data[:cut])


def test_statistics_with_a_changed_field_are_refused(statistics):
    fields = msgspec.msgpack.decode(statistics.data)
    for at, value in (
        (0, 99),
        (2, 23),
        (3, 1),
        (5, b""),
        (6, float("nan")),
        (6, 1e306),
        (7, b"x"),
        (8, b"x"),
    ):
        changed = [*fields[:at], value, *fields[at + 1 :]]
        with pytest.raises(FormatError):
            Statistics.from_bytes(msgspec.msgpack.encode(changed))


@pytest.mark.slow
def test_the_shipped_reader_has_statistics():
    from attar.reader.folders import SHIPPED
    from attar.reader.reader import Reader

    reader = Reader.load()
    found = default_statistics(reader.fingerprint)
    assert found.fit_states(reader.options.encoder.size, reader.options.encoder.vocabulary)
    assert (SHIPPED / "answers" / "search.bin").stat().st_size < 1_000_000
    assert default_statistics("0" * 64) is None


def test_statistics_in_the_folder_of_a_reader_are_its_own(statistics, tmp_path):
    (tmp_path / "search.bin").write_bytes(statistics.data)
    assert default_statistics("0" * 64, tmp_path).data == statistics.data


@pytest.fixture(scope="module")
def learned():
    random = np.random.default_rng(5)
    shapes = ((OUT, SIZE + 1), (HIDDEN, SIZE + 1), (OUT, HIDDEN))
    return StateMap(*(random.standard_normal(shape) / 4 for shape in shapes))


@pytest.fixture(scope="module")
def mapped(corpus, learned):
    return fitted(corpus, learned)


def test_the_map_is_a_linear_one_and_one_hidden_layer(learned, corpus):
    _, states = corpus[0]
    linear, hidden, out = (each.astype(np.float64) for each in learned.weights)
    unit = states / np.linalg.norm(states, axis=1, keepdims=True) * np.sqrt(SIZE)
    inner = np.maximum(unit @ hidden[:, :-1].T + hidden[:, -1], 0)
    expected = unit @ linear[:, :-1].T + linear[:, -1] + inner @ out.T
    np.testing.assert_allclose(learned(states), expected, atol=1e-5)
    assert learned.sizes == (SIZE, HIDDEN, OUT)


def test_saved_statistics_have_their_map(mapped, corpus):
    loaded = Statistics.from_bytes(mapped.data)
    np.testing.assert_array_equal(loaded.map(corpus[0][1]), mapped.map(corpus[0][1]))
    assert (loaded.data, loaded.size) == (mapped.data, OUT)
    assert loaded.fit_states(SIZE, PIECES)


def test_signatures_are_made_of_mapped_states(mapped, corpus):
    projection = mapped.projection(OUT)
    sums = Sums.of(*corpus[0], projection)
    assert len(sums.triangle) == OUT * (OUT + 1) // 2
    part, rest = (
        Sums.of(corpus[0][0][cut], corpus[0][1][cut], projection) for cut in (np.s_[:10], np.s_[10:])
    )
    np.testing.assert_allclose((part + rest).triangle, sums.triangle, rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeError, match=rf"expected \[40, {SIZE}\]"):
        Sums.of(corpus[0][0], corpus[0][1][:, :OUT], projection)
    with pytest.raises(OptionError, match=f"1 to {OUT}"):
        mapped.projection(OUT + 1)


@pytest.mark.parametrize("wrong", [b"", b"\0" * 10, None], ids=["none", "too short", "not finite"])
def test_a_map_of_other_sizes_or_numbers_is_refused(mapped, wrong):
    fields = msgspec.msgpack.decode(mapped.data)
    fields[-1] = np.full(len(fields[-1]) // 2, np.nan, "<f2").tobytes() if wrong is None else wrong
    with pytest.raises(FormatError, match="a map of other sizes"):
        Statistics.from_bytes(msgspec.msgpack.encode(fields))
