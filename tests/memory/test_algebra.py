"""Reading two texts apart and adding is reading both, and a part can be taken out again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import OptionError, ShapeError
from attar.memory.forms import FORMS_OF
from attar.text import NameTable

K = 5
CLOSE = {"rtol": 0, "atol": 1e-4}
ADDITIVE = ["linear", "gated", "keyed", "named"]


CAST = NameTable.of("Ann Lee", "Bath", "Zoë")


def made(
    mechanism: str, seed: int = 0, tokens: int = 7, names: NameTable = CAST, k: int = K, **rest
) -> Memory:
    rng = np.random.default_rng(seed)
    shapes = {"none": (k,), "softmax": (tokens, k), "keyed": (k, 3), "named": (len(names), k)}
    numbers = rng.standard_normal(shapes.get(mechanism, (k, k)))
    if mechanism not in shapes:
        numbers = numbers @ numbers.T
    state = rng.standard_normal(2)
    return Memory.of(
        mechanism, numbers, **{"tokens": tokens, "reader": "r", "names": names, "state": state} | rest
    )


def states(n: int, k: int, seed: int = 0) -> Memory:
    return Memory.of_states(np.random.default_rng(seed).standard_normal((n, k)), reader="r")


def summing(seed: int, mechanism: str, n: int) -> Memory:
    """A memory that can be added; gated ones may be states, and hold no names."""
    if mechanism != "gated":
        return made(mechanism, seed)
    return states(n, K, seed) if n else made("gated", seed, names=NameTable())


triples = st.sampled_from(ADDITIVE).flatmap(
    lambda mechanism: st.tuples(
        *[st.builds(summing, st.integers(0, 99), st.just(mechanism), st.integers(0, 4))] * 3
    )
)


class TestSums:
    @settings(deadline=None)
    @given(triples)
    def test_the_order_makes_no_difference_to_the_numbers(self, three):
        a, b, _ = three
        assert np.allclose((a + b).array(), (b + a).array(), **CLOSE)
        assert (a + b).tokens == (b + a).tokens == a.tokens + b.tokens

    @settings(deadline=None)
    @given(triples)
    def test_nor_does_the_grouping(self, three):
        a, b, c = three
        assert np.allclose((a + b + c).array(), (a + (b + c)).array(), **CLOSE)

    @settings(deadline=None)
    @given(triples)
    def test_what_was_added_can_be_taken_out_again(self, three):
        a, b, _ = three
        back = a + b - b
        assert np.allclose(back.array(), a.array(), **CLOSE)
        assert back.tokens == a.tokens

    @settings(deadline=None)
    @given(triples)
    def test_a_lookup_in_a_sum_is_the_sum_of_the_lookups(self, three):
        queries = np.ones((2, K))
        looked_up = [memory.lookup(queries) for memory in three]
        assert np.allclose(sum(three).lookup(queries), sum(looked_up), **CLOSE)

    @pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "named", "softmax", "none"])
    def test_reading_goes_on_where_the_later_text_ended(self, mechanism):
        a, b, empty = made(mechanism), made(mechanism, 1), made(mechanism, 2, tokens=0)
        assert (a + b).state.tolist() == b.state.tolist()
        assert (a + empty).state.tolist() == a.state.tolist()

    @pytest.mark.parametrize("mechanism", ADDITIVE)
    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_a_sum_of_fewer_bytes_is_float32(self, mechanism, dtype):
        a, b = made(mechanism).astype(dtype), made(mechanism, 1).astype(dtype)
        assert (a + b).dtype == (a - b).dtype == "float32"
        assert np.allclose((a + b).array(), a.array() + b.array(), **CLOSE)

    def test_a_number_is_no_memory(self):
        with pytest.raises(TypeError):
            made("linear") + 1


class TestStates:
    def test_states_beside_states_while_they_are_fewer_numbers(self):
        a, b = states(2, 9), states(2, 9, seed=1)
        assert (a + b).numbers.tolist() == [*a.numbers.tolist(), *b.numbers.tolist()]

    def test_more_of_them_become_a_triangle(self):
        a, b = states(3, 9), states(2, 9, seed=1)
        assert (a + b).form == "triangle"
        assert np.allclose((a + b).matrix(), a.matrix() + b.matrix(), **CLOSE)

    @pytest.mark.parametrize("swap", [False, True])
    def test_states_and_a_triangle_are_a_triangle(self, swap):
        pair = [states(2, 9), states(8, 9, seed=1)]
        a, b = reversed(pair) if swap else pair
        assert (a + b).form == (a - b if a.tokens > b.tokens else b - a).form == "triangle"


class TestBaselines:
    def test_softmax_puts_the_later_states_behind(self):
        a, b = made("softmax"), made("softmax", 1, tokens=2)
        assert np.array_equal((a + b).numbers, np.concatenate((a.numbers, b.numbers)))

    def test_none_keeps_the_later_state_unless_nothing_was_read(self):
        a, b, empty = made("none"), made("none", 1), made("none", 2, tokens=0)
        assert (a + b).numbers.tolist() == b.numbers.tolist()
        assert (a + empty).numbers.tolist() == a.numbers.tolist()
        assert (a + empty).tokens == a.tokens

    @pytest.mark.parametrize("mechanism", sorted(set(FORMS_OF) - set(ADDITIVE)))
    def test_what_is_no_sum_has_no_part_to_take_out(self, mechanism):
        with pytest.raises(OptionError, match="a - b: expected a mechanism that sums"):
            made(mechanism) - made(mechanism)


class TestRefusals:
    @pytest.mark.parametrize("mechanism", ["decayed", "adaptive"])
    def test_a_mechanism_that_forgets_is_to_be_read_on(self, mechanism):
        with pytest.raises(OptionError, match="read on with extend"):
            made(mechanism) + made(mechanism)

    @pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])
    @pytest.mark.parametrize(
        ("other", "line"),
        [
            (made("linear", reader="s"), "memories of reader 'r', got one of 's'; read both"),
            (made("gated"), "two linear memories, got linear and gated"),
            (made("linear", k=4), "memories of size 5, got one of size 4"),
            (
                made("linear", names=NameTable.of("Bath")),
                r"one table of names, .*read_many\(texts, together=True\)",
            ),
        ],
        ids=["reader", "mechanism", "size", "names"],
    )
    def test_memories_that_are_not_alike(self, act, other, line):
        with pytest.raises((OptionError, ShapeError), match=line):
            act(made("linear"), other)

    def test_values_of_another_size(self):
        other = Memory.of("keyed", np.ones((K, 4)), tokens=1, reader="r", names=CAST)
        with pytest.raises(ShapeError, match=r"\[5, 3\], got \[5, 4\]"):
            made("keyed") + other

    def test_a_part_larger_than_the_whole(self):
        with pytest.raises(OptionError, match="a part of the 7 tokens of a, got 8 tokens"):
            made("linear") - made("linear", tokens=8)


class TestNamesByIds:
    def test_a_table_that_grew_since_agrees(self):
        grown = CAST.copy()
        grown.learn(["Rome"])
        a, b = made("gated"), made("gated", 1, names=grown)
        assert (a + b).names == (b + a).names == grown

    def test_a_lone_name_that_has_become_a_longer_one_agrees(self):
        early, late = NameTable.of("Linton"), NameTable.of("Linton", "Edgar Linton")
        assert (made("gated", names=late) + made("gated", names=early)).names.names == ["Edgar Linton"]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (["Ann", "Bath"], ["Bath", "Ann"]),
            (["Ann"], ["Bath"]),
            (["Ann", "Bath", "Rome"], ["Ann", "Bath", "Oslo"]),
            (["Linton", "Edgar Linton"], ["Linton", "Isabella Linton"]),
        ],
        ids=["another order", "other names", "grown apart", "one lone name, two longer ones"],
    )
    @pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "softmax", "none"])
    def test_tables_that_differ_are_refused(self, mechanism, first, second):
        a, b = made(mechanism, names=NameTable.of(*first)), made(mechanism, 1, names=NameTable.of(*second))
        with pytest.raises(OptionError, match="read the documents together"):
            a + b

    def test_a_text_without_names_can_be_added_to_any(self):
        assert (made("gated") + made("gated", 1, names=NameTable())).names == CAST
