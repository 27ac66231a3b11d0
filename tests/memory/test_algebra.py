"""Reading two texts apart and adding is reading both, and a part can be taken out again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import OptionError, ShapeError
from attar.memory.company import Company
from attar.memory.forms import FORMS_OF
from attar.text.names import NameTable

K = 5
CLOSE = {"rtol": 0, "atol": 1e-4}
ADDITIVE = ["linear", "gated", "keyed", "named"]


def table_of(*names: str, limit: int = 600) -> NameTable:
    table = NameTable(limit)
    for name in names:
        table.learn(name.split())
    return table


CAST = table_of("Ann Lee", "Bath", "Zoë")


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


def named(names: NameTable | list[str], *rows: float, tokens: int = 1) -> Memory:
    """One number a name."""
    table = names if isinstance(names, NameTable) else table_of(*names)
    return Memory.of("named", np.reshape(rows, (-1, 1)), tokens=tokens, reader="r", names=table)


def vectors(memory: Memory) -> dict[str, float]:
    return dict(zip(memory.names.names, memory.numbers[:, 0].tolist(), strict=True))


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
                made("linear", names=table_of("Bath")),
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

    def test_names_that_the_whole_does_not_hold(self):
        with pytest.raises(OptionError, match="'Rome', which is not"):
            named(["Bath"], 1.0) - named(["Rome"], 1.0)

    def test_more_names_than_the_table_takes(self):
        small = table_of("Bath", limit=1)
        with pytest.raises(OptionError, match="at most 1 names, got 1 more; ask the documents apart"):
            named(small, 1.0) + named(["Rome"], 1.0)


cast = st.lists(
    st.sampled_from(["Ann", "Lee", "Ann Lee", "Bob Lee", "Bob", "Ann Ray", "Ray", "Bath", "Ray Lee"]),
    max_size=6,
)
of_names = cast.map(lambda names: table_of(*names)).map(
    lambda table: named(table, *(float(2**n) for n in range(len(table))))
)


class TestNamesByName:
    @settings(deadline=None)
    @given(of_names, of_names, of_names)
    def test_whatever_the_names_each_part_can_be_taken_out_again(self, a, b, c):
        left = a + b + c - b - c
        assert left.numbers[: len(a.numbers)].tolist() == a.numbers.tolist()
        assert not left.numbers[len(a.numbers) :].any()

    @settings(deadline=None)
    @given(of_names, of_names)
    def test_nothing_is_lost(self, a, b):
        assert (a + b).numbers.sum() == a.numbers.sum() + b.numbers.sum()

    def test_vectors_meet_by_name_whatever_their_ids(self):
        both = named(["Ann", "Bath"], 1, 2) + named(["Rome", "Bath", "Ann"], 10, 20, 30)
        assert vectors(both) == {"Ann": 31, "Bath": 22, "Rome": 10}

    def test_a_lone_surname_joins_the_longer_name_read_before(self):
        assert vectors(named(["Jane Bennet"], 1) + named(["Bennet"], 10)) == {"Jane Bennet": 11}

    def test_a_longer_name_read_later_names_the_lone_one(self):
        assert vectors(named(["Bennet"], 1) + named(["Jane Bennet"], 10)) == {"Jane Bennet": 11}

    def test_two_lone_parts_of_one_longer_name_are_summed(self):
        assert vectors(named(["Jane Bennet"], 1) + named(["Jane", "Bennet"], 10, 20)) == {"Jane Bennet": 31}

    def test_a_part_that_meant_somebody_else_there_goes_with_her(self):
        lydia = table_of("Bennet", "Lydia Bennet")  # the Bennet of that text is Lydia
        both = named(["Jane Bennet"], 1) + named(lydia, 10)
        assert vectors(both) == {"Jane Bennet": 1, "Lydia Bennet": 10}
        assert both.names.resolve(["Bennet"]) is None

    def test_two_people_of_one_text_stay_two(self):
        later = table_of("Bennet", "Lydia", "Lydia Bennet")  # the first word decides: Bennet is another
        assert vectors(named([]) + named(later, 1, 2)) == {"Bennet": 1, "Lydia Bennet": 2}

    def test_what_joined_a_longer_name_can_be_taken_out_of_it_after_others_came(self):
        jane, lone, lydia = named(["Jane Bennet"], 1), named(["Bennet"], 10), named(["Lydia Bennet"], 100)
        whole = jane + lone + lydia + named(["Bennet"], 1000)
        assert vectors(whole - lone) == {"Jane Bennet": 1001, "Lydia Bennet": 100}

    def test_the_memories_that_were_added_keep_their_names(self):
        a, b = named(["Bath"], 1), named(["Rome"], 1)
        a + b
        assert (a.names.names, b.names.names) == (["Bath"], ["Rome"])


class TestNamesByIds:
    def test_a_table_that_grew_since_agrees(self):
        grown = CAST.copy()
        grown.learn(["Rome"])
        a, b = made("gated"), made("gated", 1, names=grown)
        assert (a + b).names == (b + a).names == grown

    def test_a_lone_name_that_has_become_a_longer_one_agrees(self):
        early, late = table_of("Linton"), table_of("Linton", "Edgar Linton")
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
        a, b = made(mechanism, names=table_of(*first)), made(mechanism, 1, names=table_of(*second))
        with pytest.raises(OptionError, match="read the documents together"):
            a + b

    def test_a_text_without_names_can_be_added_to_any(self):
        assert (made("gated") + made("gated", 1, names=NameTable())).names == CAST


FIRST, LIMIT = 2, 600


def introduced(*sentences: str, limit: int = LIMIT) -> Memory:
    """A memory with company: words with a capital are names, the others have their length + 1,000 for an id."""
    table, ids, ends = NameTable(), [], []
    for sentence in sentences:
        for word in sentence.split():
            number = table.learn([word]) if word[0].isupper() else None
            ids.append(1_000 + len(word) if number is None else FIRST + number)
            ends.append(False)
        ends[-1] = True
    names = [token - FIRST if token < FIRST + LIMIT else -1 for token in ids]
    company = Company.count(names, ids, ends, count=len(table), first=FIRST, limit=limit, common=0)
    rows = np.ones((len(table), 1))
    return Memory.of("named", rows, tokens=len(ids), reader="r", names=table, company=company)


def who_met_whom(memory: Memory) -> dict[str, dict[str, int]]:
    names = memory.names.names
    return {
        name: {names[token - FIRST]: times for token, times in memory.company.of(j).items() if token < 1_000}
        for j, name in enumerate(names)
    }


some_sentences = st.lists(
    st.lists(st.sampled_from(["Ann", "Bob", "Cy", "met", "saw"]), min_size=1, max_size=5).map(" ".join),
    max_size=4,
)


class TestCompany:
    @settings(deadline=None)
    @given(some_sentences, some_sentences)
    def test_reading_apart_and_adding_is_reading_both(self, a, b):
        assert (introduced(*a) + introduced(*b)).company == introduced(*a, *b).company

    @settings(deadline=None)
    @given(some_sentences, some_sentences)
    def test_what_was_added_can_be_taken_out_again(self, a, b):
        left = introduced(*a) + introduced(*b) - introduced(*b)
        assert left.company == introduced(*a).company.with_room(len(left.names))

    def test_names_meet_by_name_whatever_their_ids(self):
        both = introduced("Ann met Bob") + introduced("Cy saw Bob", "Bob saw Ann")
        assert who_met_whom(both) == {
            "Ann": {"Ann": 2, "Bob": 2},
            "Bob": {"Ann": 2, "Bob": 3, "Cy": 1},
            "Cy": {"Bob": 1, "Cy": 1},
        }

    def test_two_parts_of_one_longer_name_have_one_company(self):
        jane = named(["Jane Bennet"], 1)
        empty = Company.empty(1, FIRST, LIMIT)
        whole = Memory.of("named", jane.numbers, tokens=2, reader="r", names=jane.names, company=empty)
        both = whole + introduced("Jane met Ann", "Bennet met Ann")
        assert who_met_whom(both) == {
            "Jane Bennet": {"Jane Bennet": 2, "Ann": 2},
            "Ann": {"Jane Bennet": 2, "Ann": 2},
        }

    @pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])
    @pytest.mark.parametrize("swap", [False, True])
    def test_one_with_company_and_one_without_are_refused(self, act, swap):
        pair = introduced("Ann left"), named(["Ann"], 1.0)
        with pytest.raises(OptionError, match="company in both memories or in neither"):
            act(*reversed(pair)) if swap else act(*pair)

    @pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])
    def test_company_with_other_ids_is_refused(self, act):
        with pytest.raises(OptionError, match="600 names from id 2 on, got 9 names from id 2 on"):
            act(introduced("Ann left"), introduced("Ann left", limit=9))

    def test_a_part_that_was_not_read_is_refused(self):
        with pytest.raises(OptionError, match="a part of what a was read from"):
            introduced("Ann met Bob", "Ann left") - introduced("Ann saw Bob", "Bob left")
