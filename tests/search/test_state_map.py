"""A learned map of states belongs to the statistics: it is saved with them, and both are fitted to mapped states."""

import msgspec
import numpy as np
import pytest

from attar.errors import FormatError, OptionError, ShapeError
from attar.search.signatures import Sums
from attar.search.statistics import StateMap, Statistics

SIZE, PIECES, HIDDEN, OUT = 24, 200, 9, 12


@pytest.fixture(scope="module")
def learned():
    random = np.random.default_rng(5)
    shapes = ((OUT, SIZE + 1), (HIDDEN, SIZE + 1), (OUT, HIDDEN))
    return StateMap(*(random.standard_normal(shape) / 4 for shape in shapes))


@pytest.fixture(scope="module")
def mapped(corpus, learned):
    found = Statistics.empty("r", size=SIZE, pieces=PIECES, map=learned)
    for ids, states in corpus:
        found = found.with_document(ids, states)
    return found


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
    assert (loaded.data, loaded.state_size, len(loaded.total)) == (mapped.data, SIZE, OUT)
    assert loaded.fit_states(SIZE, PIECES)


def test_signatures_are_made_of_mapped_states(mapped, corpus):
    projection = mapped.projection(OUT)
    sums = Sums.of(*corpus[0], projection)
    assert (len(sums.triangle), len(sums.total)) == (OUT * (OUT + 1) // 2, OUT)
    part, rest = (
        Sums.of(corpus[0][0][cut], corpus[0][1][cut], projection) for cut in (np.s_[:10], np.s_[10:])
    )
    np.testing.assert_allclose((part + rest).triangle, sums.triangle, rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeError, match=rf"expected \[40, {SIZE}\]"):
        Sums.of(corpus[0][0], corpus[0][1][:, :OUT], projection)
    with pytest.raises(OptionError, match=f"1 to {OUT}"):
        mapped.projection(OUT + 1)


def test_documents_unlike_those_of_the_statistics_show_as_drift(mapped, corpus):
    projection = mapped.projection(OUT)
    own = [Sums.of(ids, states, projection) for ids, states in corpus]
    assert sum(each.kept for each in own) / sum(each.whole for each in own) == pytest.approx(1, abs=0.02)
    random = np.random.default_rng(1)
    noise = random.standard_normal((40, SIZE)).astype(np.float32)
    other = Sums.of(np.zeros(40, np.int64), noise, projection)
    assert other.kept / other.whole < 0.95


def test_statistics_with_and_without_a_map_are_not_added(mapped, corpus):
    plain = Statistics.empty("r", size=OUT, pieces=PIECES)
    with pytest.raises(OptionError, match="fit them with this reader"):
        mapped + plain


@pytest.mark.parametrize("wrong", [b"", b"\0" * 10, None], ids=["none", "too short", "not finite"])
def test_a_map_of_other_sizes_or_numbers_is_refused(mapped, wrong):
    fields = msgspec.msgpack.decode(mapped.data)
    fields[-1] = np.full(len(fields[-1]) // 2, np.nan, "<f2").tobytes() if wrong is None else wrong
    with pytest.raises(FormatError, match="a map of other sizes"):
        Statistics.from_bytes(msgspec.msgpack.encode(fields))
