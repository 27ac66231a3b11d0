"""Statistics are sums: order and parts do not matter, and what was saved gives the same projection."""

import msgspec
import numpy as np
import pytest

from attar.errors import FormatError, OptionError, ShapeError
from attar.search.statistics import Statistics, default_statistics

SIZE, PIECES = 24, 200


def fitted(documents):
    found = Statistics.empty("r", size=SIZE, pieces=PIECES)
    for ids, states in documents:
        found = found.with_document(ids, states)
    return found


def test_statistics_of_parts_add_up_to_those_of_the_whole(corpus, statistics):
    both = fitted(corpus[:20]) + fitted(corpus[20:])
    np.testing.assert_allclose(both.products, statistics.products, rtol=1e-6)
    np.testing.assert_array_equal(both.frequencies, statistics.frequencies)
    assert (both.documents, both.tokens) == (60, 2400)


def test_the_projection_has_orthonormal_directions_of_falling_variance(statistics):
    projection = statistics.projection(8)
    gram = projection.directions.T @ projection.directions
    np.testing.assert_allclose(gram, np.eye(8), atol=1e-5)
    assert (np.diff(projection.scales) >= 0).all()
    assert 0 < projection.kept < 1


def test_saved_statistics_give_the_same_projection_and_digest(statistics, tmp_path):
    (tmp_path / "search.bin").write_bytes(statistics.data)
    loaded = Statistics.load(tmp_path / "search.bin")
    assert loaded.data == statistics.data
    ours, theirs = statistics.projection(8), loaded.projection(8)
    np.testing.assert_array_equal(ours.directions, theirs.directions)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    assert Statistics.from_bytes(loaded.data).data == loaded.data


def test_rare_words_weigh_more(statistics):
    weights = statistics.projection(4).weights
    assert weights[:20].max() < weights[20:].max()


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
def test_cut_files_are_refused(statistics, cut):
    with pytest.raises(FormatError, match="statistics"):
        Statistics.from_bytes(statistics.data[:cut])


def test_statistics_with_a_changed_field_are_refused(statistics):
    fields = msgspec.msgpack.decode(statistics.data)
    for at, value in ((0, 99), (2, 23), (3, 1), (5, b""), (6, float("nan")), (7, b"x"), (8, b"x")):
        changed = [*fields[:at], value, *fields[at + 1 :]]
        with pytest.raises(FormatError):
            Statistics.from_bytes(msgspec.msgpack.encode(changed))


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(FormatError, match="the file cannot be read: No such file"):
        Statistics.load(tmp_path / "none")


def test_statistics_of_another_reader_are_not_added(statistics):
    with pytest.raises(OptionError, match="statistics of reader other do not fit those of r"):
        statistics + Statistics.empty("other", size=SIZE, pieces=PIECES)


def test_states_of_another_size_are_refused(statistics):
    with pytest.raises(ShapeError, match=r"states: expected \[2, 24\], got \[2, 5\]"):
        statistics.with_document(np.array([1, 2]), np.zeros((2, 5), np.float32))


def test_a_projection_needs_a_document_and_a_size_that_fits(statistics):
    with pytest.raises(OptionError, match="have no documents"):
        Statistics.empty("r", size=4, pieces=4).projection(2)
    with pytest.raises(OptionError, match="1 to 24"):
        statistics.projection(25)


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
