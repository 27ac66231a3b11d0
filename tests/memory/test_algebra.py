"""Adding the memories of two texts equals reading both; subtracting removes a part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import OptionError, ShapeError
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import FORMS_OF, INDEXED
from attar.text.name_table import NameTable

K = 5
CLOSE = {"rtol": 0, "atol": 1e-4}
ADDITIVE = ["linear", "gated", "keyed", "named"]  # and phrases: see test_phrases.py
CAST = NameTable.of("Ann Lee", "Bath", "Zoë")


def made(
    mechanism: str, seed: int = 0, tokens: int = 7, names: NameTable = CAST, k: int = K, **rest
) -> Memory:
    rng = np.random.default_rng(seed)
    shapes = {"none": (k,), "softmax": (tokens, k), "keyed": (k, 3), "named": (len(names), k)}
    numbers = rng.standard_normal(shapes.get(mechanism, (k, k)))
    if mechanism not in shapes:
        numbers = numbers @ numbers.T
    options = {"tokens": tokens, "reader": "r", "names": names, "state": rng.standard_normal(2)}
    return Memory.of(mechanism, numbers, **options | rest)


def states(n: int, k: int, seed: int = 0) -> Memory:
    return Memory.of_states(np.random.default_rng(seed).standard_normal((n, k)), reader="r")


def summing(seed: int, mechanism: str, n: int) -> Memory:
    """A memory that can be added; gated ones may be states, without names."""
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
    def test_addition_is_commutative(self, three):
        a, b, _ = three
        assert np.allclose((a + b).array(), (b + a).array(), **CLOSE)
        assert (a + b).tokens == (b + a).tokens == a.tokens + b.tokens

    @settings(deadline=None)
    @given(triples)
    def test_addition_is_associative(self, three):
        a, b, c = three
        assert np.allclose((a + b + c).array(), (a + (b + c)).array(), **CLOSE)

    @settings(deadline=None)
    @given(triples)
    def test_subtracting_undoes_adding(self, three):
        a, b, _ = three
        back = a + b - b
        assert np.allclose(back.array(), a.array(), **CLOSE)
        assert back.tokens == a.tokens

    @settings(deadline=None)
    @given(triples)
    def test_the_readout_of_a_sum_is_the_sum_of_the_readouts(self, three):
        queries = np.ones((2, K))
        looked_up = [memory.lookup(queries) for memory in three]
        assert np.allclose(sum(three).lookup(queries), sum(looked_up), **CLOSE)

    @pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "named", "softmax", "none"])
    def test_a_sum_has_the_encoder_state_of_the_last_text_with_tokens(self, mechanism):
        a, b, empty = made(mechanism), made(mechanism, 1), made(mechanism, 2, tokens=0)
        assert (a + b).state.tolist() == b.state.tolist()
        assert (a + empty).state.tolist() == a.state.tolist()

    @pytest.mark.parametrize("mechanism", ADDITIVE)
    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_a_sum_of_lower_precisions_is_float32(self, mechanism, dtype):
        a, b = made(mechanism).astype(dtype), made(mechanism, 1).astype(dtype)
        assert (a + b).dtype == (a - b).dtype == "float32"
        assert np.allclose((a + b).array(), a.array() + b.array(), **CLOSE)

    def test_adding_a_number_is_refused(self):
        with pytest.raises(TypeError):
            made("linear") + 1


class TestStates:
    def test_states_are_concatenated_while_they_are_smaller(self):
        a, b = states(2, 9), states(2, 9, seed=1)
        assert (a + b).numbers.tolist() == [*a.numbers.tolist(), *b.numbers.tolist()]

    def test_more_states_become_a_triangle(self):
        a, b = states(3, 9), states(2, 9, seed=1)
        assert (a + b).form == "triangle"
        assert np.allclose((a + b).matrix(), a.matrix() + b.matrix(), **CLOSE)

    @pytest.mark.parametrize("swap", [False, True])
    def test_states_and_a_triangle_give_a_triangle(self, swap):
        pair = [states(2, 9), states(8, 9, seed=1)]
        a, b = reversed(pair) if swap else pair
        assert (a + b).form == (a - b if a.tokens > b.tokens else b - a).form == "triangle"


class TestBaselines:
    def test_softmax_concatenates_the_states(self):
        a, b = made("softmax"), made("softmax", 1, tokens=2)
        assert np.array_equal((a + b).numbers, np.concatenate((a.numbers, b.numbers)))

    def test_none_keeps_the_state_of_the_last_text_with_tokens(self):
        a, b, empty = made("none"), made("none", 1), made("none", 2, tokens=0)
        assert (a + b).numbers.tolist() == b.numbers.tolist()
        assert (a + empty).numbers.tolist() == a.numbers.tolist()
        assert (a + empty).tokens == a.tokens

    @pytest.mark.parametrize("mechanism", sorted(set(FORMS_OF) - {*ADDITIVE, *INDEXED}))
    def test_mechanisms_that_do_not_sum_refuse_to_subtract(self, mechanism):
        with pytest.raises(OptionError, match="a - b: expected a mechanism that sums"):
            made(mechanism) - made(mechanism)


class TestRefusals:
    @pytest.mark.parametrize("mechanism", ["decayed", "adaptive"])
    def test_forgetting_mechanisms_refuse_to_add(self, mechanism):
        with pytest.raises(OptionError, match=r"Reader\.extend"):
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
                r"one table of names, .*read_many\(texts, shared_names=True\)",
            ),
        ],
        ids=["reader", "mechanism", "size", "names"],
    )
    def test_incompatible_memories_are_refused(self, act, other, line):
        with pytest.raises((OptionError, ShapeError), match=line):
            act(made("linear"), other)

    def test_values_of_another_size_are_refused(self):
        other = Memory.of("keyed", np.ones((K, 4)), tokens=1, reader="r", names=CAST)
        with pytest.raises(ShapeError, match=r"\[5, 3\], got \[5, 4\]"):
            made("keyed") + other

    def test_a_part_larger_than_the_whole_is_refused(self):
        with pytest.raises(OptionError, match="a part of the 7 tokens of a, got 8 tokens"):
            made("linear") - made("linear", tokens=8)


class TestNamesByIds:
    def test_a_table_may_have_grown(self):
        grown = CAST.copy()
        grown.learn(["Rome"])
        a, b = made("gated"), made("gated", 1, names=grown)
        assert (a + b).names == (b + a).names == grown

    def test_a_surname_may_have_become_a_longer_name(self):
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
        ids=["another order", "other names", "grown apart", "one surname, two longer names"],
    )
    @pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "softmax", "none"])
    def test_tables_that_differ_are_refused(self, mechanism, first, second):
        a, b = made(mechanism, names=NameTable.of(*first)), made(mechanism, 1, names=NameTable.of(*second))
        with pytest.raises(OptionError, match="with shared names"):
            a + b

    def test_a_text_without_names_can_be_added_to_any(self):
        assert (made("gated") + made("gated", 1, names=NameTable())).names == CAST


def named(names: NameTable | list[str], *rows: float, tokens: int = 1) -> Memory:
    """A memory of vectors of size 1, one per name."""
    table = names if isinstance(names, NameTable) else NameTable.of(*names)
    return Memory.of("named", np.reshape(rows, (-1, 1)), tokens=tokens, reader="r", names=table)


def vectors(memory: Memory) -> dict[str, float]:
    return dict(zip(memory.names.names, memory.numbers[:, 0].tolist(), strict=True))


cast = st.lists(
    st.sampled_from(["Ann", "Lee", "Ann Lee", "Bob Lee", "Bob", "Ann Ray", "Ray", "Bath", "Ray Lee"]),
    max_size=6,
)
of_names = cast.map(lambda names: NameTable.of(*names)).map(
    lambda table: named(table, *(float(2**n) for n in range(len(table))))
)


class TestNamesByName:
    @settings(deadline=None)
    @given(of_names, of_names, of_names)
    def test_subtracting_undoes_adding_for_any_names(self, a, b, c):
        left = a + b + c - b - c
        assert left.numbers[: len(a.numbers)].tolist() == a.numbers.tolist()
        assert not left.numbers[len(a.numbers) :].any()

    @settings(deadline=None)
    @given(of_names, of_names)
    def test_addition_keeps_the_sum_of_all_vectors(self, a, b):
        assert (a + b).numbers.sum() == a.numbers.sum() + b.numbers.sum()

    def test_vectors_are_added_by_name_not_by_id(self):
        both = named(["Ann", "Bath"], 1, 2) + named(["Rome", "Bath", "Ann"], 10, 20, 30)
        assert vectors(both) == {"Ann": 31, "Bath": 22, "Rome": 10}

    def test_a_surname_is_added_to_an_earlier_longer_name(self):
        assert vectors(named(["Jane Bennet"], 1) + named(["Bennet"], 10)) == {"Jane Bennet": 11}

    def test_a_later_longer_name_replaces_a_surname(self):
        assert vectors(named(["Bennet"], 1) + named(["Jane Bennet"], 10)) == {"Jane Bennet": 11}

    def test_two_parts_of_a_longer_name_are_added_to_it(self):
        assert vectors(named(["Jane Bennet"], 1) + named(["Jane", "Bennet"], 10, 20)) == {"Jane Bennet": 31}

    def test_a_surname_of_another_person_stays_with_that_person(self):
        lydia = NameTable.of("Bennet", "Lydia Bennet")  # the Bennet of that text is Lydia
        both = named(["Jane Bennet"], 1) + named(lydia, 10)
        assert vectors(both) == {"Jane Bennet": 1, "Lydia Bennet": 10}
        assert both.names.resolve(["Bennet"]) is None

    def test_two_people_of_one_text_stay_separate(self):
        later = NameTable.of("Bennet", "Lydia", "Lydia Bennet")  # the first word decides: Bennet is another
        assert vectors(named([]) + named(later, 1, 2)) == {"Bennet": 1, "Lydia Bennet": 2}

    def test_a_surname_can_be_subtracted_after_other_names_were_added(self):
        jane, lone, lydia = named(["Jane Bennet"], 1), named(["Bennet"], 10), named(["Lydia Bennet"], 100)
        whole = jane + lone + lydia + named(["Bennet"], 1000)
        assert vectors(whole - lone) == {"Jane Bennet": 1001, "Lydia Bennet": 100}

    def test_addition_does_not_change_the_names_of_its_operands(self):
        a, b = named(["Bath"], 1), named(["Rome"], 1)
        a + b
        assert (a.names.names, b.names.names) == (["Bath"], ["Rome"])

    def test_subtracting_unknown_names_is_refused(self):
        with pytest.raises(OptionError, match="'Rome', which is not"):
            named(["Bath"], 1.0) - named(["Rome"], 1.0)

    def test_more_names_than_the_limit_are_refused(self):
        small = NameTable.of("Bath", limit=1)
        with pytest.raises(OptionError, match="at most 1 names, got 1 more; ask the documents one by one"):
            named(small, 1.0) + named(["Rome"], 1.0)


FIRST, LIMIT = 2, 600


def memory_of(*sentences: str, limit: int = LIMIT) -> Memory:
    """A memory with co-occurrence counts: capitalized words are names, others have the id 1,000 + their length."""
    table, ids, ends = NameTable(), [], []
    for sentence in sentences:
        for word in sentence.split():
            number = table.learn([word]) if word[0].isupper() else None
            ids.append(1_000 + len(word) if number is None else FIRST + number)
            ends.append(False)
        ends[-1] = True
    names = [token - FIRST if token < FIRST + LIMIT else -1 for token in ids]
    options = {"counts": [len(table)], "first": FIRST, "limit": limit, "common": 0}
    (counts,) = Cooccurrence.count(names, ids, ends, [len(ids)], **options)
    rows = np.ones((len(table), 1))
    return Memory.of("named", rows, tokens=len(ids), reader="r", names=table, cooccurrence=counts)


def cooccurring_names(memory: Memory) -> dict[str, dict[str, int]]:
    names = memory.names.names
    return {
        name: {
            names[token - FIRST]: times for token, times in memory.cooccurrence.of(j).items() if token < 1_000
        }
        for j, name in enumerate(names)
    }


some_sentences = st.lists(
    st.lists(st.sampled_from(["Ann", "Bob", "Cy", "met", "saw"]), min_size=1, max_size=5).map(" ".join),
    max_size=4,
)


class TestCooccurrenceByName:
    @settings(deadline=None)
    @given(some_sentences, some_sentences)
    def test_adding_the_counts_of_two_texts_equals_reading_both(self, a, b):
        assert (memory_of(*a) + memory_of(*b)).cooccurrence == memory_of(*a, *b).cooccurrence

    @settings(deadline=None)
    @given(some_sentences, some_sentences)
    def test_subtracting_the_counts_undoes_adding(self, a, b):
        left = memory_of(*a) + memory_of(*b) - memory_of(*b)
        assert left.cooccurrence == memory_of(*a).cooccurrence.pad(len(left.names))

    def test_counts_are_added_by_name_not_by_id(self):
        both = memory_of("Ann met Bob") + memory_of("Cy saw Bob", "Bob saw Ann")
        assert cooccurring_names(both) == {
            "Ann": {"Ann": 2, "Bob": 2},
            "Bob": {"Ann": 2, "Bob": 3, "Cy": 1},
            "Cy": {"Bob": 1, "Cy": 1},
        }

    def test_counts_of_two_parts_of_a_longer_name_are_added(self):
        jane = named(["Jane Bennet"], 1)
        empty = Cooccurrence.empty(1, FIRST, LIMIT)
        whole = Memory.of("named", jane.numbers, tokens=2, reader="r", names=jane.names, cooccurrence=empty)
        both = whole + memory_of("Jane met Ann", "Bennet met Ann")
        assert cooccurring_names(both) == {
            "Jane Bennet": {"Jane Bennet": 2, "Ann": 2},
            "Ann": {"Jane Bennet": 2, "Ann": 2},
        }

    @pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])
    @pytest.mark.parametrize("swap", [False, True])
    def test_counts_in_only_one_of_both_memories_are_refused(self, act, swap):
        pair = memory_of("Ann left"), named(["Ann"], 1.0)
        with pytest.raises(OptionError, match="co-occurrence counts in both memories or in neither"):
            act(*reversed(pair)) if swap else act(*pair)

    @pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])
    def test_counts_with_other_ids_are_refused(self, act):
        with pytest.raises(OptionError, match="600 names from id 2 on, got 9 names from id 2 on"):
            act(memory_of("Ann left"), memory_of("Ann left", limit=9))

    def test_counts_that_are_not_a_part_cannot_be_subtracted(self):
        with pytest.raises(OptionError, match="a part of what a was read from"):
            memory_of("Ann met Bob", "Ann left") - memory_of("Ann saw Bob", "Bob left")
