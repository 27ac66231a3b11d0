"""Vectors by name are added and taken out name by name, whatever their ids, and each one's company with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar import Memory
from attar.errors import OptionError
from attar.memory.company import Company
from attar.memory.counting import count_company
from attar.text import NameTable


def named(names: NameTable | list[str], *rows: float, tokens: int = 1) -> Memory:
    """One number a name."""
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
        lydia = NameTable.of("Bennet", "Lydia Bennet")  # the Bennet of that text is Lydia
        both = named(["Jane Bennet"], 1) + named(lydia, 10)
        assert vectors(both) == {"Jane Bennet": 1, "Lydia Bennet": 10}
        assert both.names.resolve(["Bennet"]) is None

    def test_two_people_of_one_text_stay_two(self):
        later = NameTable.of("Bennet", "Lydia", "Lydia Bennet")  # the first word decides: Bennet is another
        assert vectors(named([]) + named(later, 1, 2)) == {"Bennet": 1, "Lydia Bennet": 2}

    def test_what_joined_a_longer_name_can_be_taken_out_of_it_after_others_came(self):
        jane, lone, lydia = named(["Jane Bennet"], 1), named(["Bennet"], 10), named(["Lydia Bennet"], 100)
        whole = jane + lone + lydia + named(["Bennet"], 1000)
        assert vectors(whole - lone) == {"Jane Bennet": 1001, "Lydia Bennet": 100}

    def test_the_memories_that_were_added_keep_their_names(self):
        a, b = named(["Bath"], 1), named(["Rome"], 1)
        a + b
        assert (a.names.names, b.names.names) == (["Bath"], ["Rome"])

    def test_names_that_the_whole_does_not_hold(self):
        with pytest.raises(OptionError, match="'Rome', which is not"):
            named(["Bath"], 1.0) - named(["Rome"], 1.0)

    def test_more_names_than_the_table_takes(self):
        small = NameTable.of("Bath", limit=1)
        with pytest.raises(OptionError, match="at most 1 names, got 1 more; ask the documents apart"):
            named(small, 1.0) + named(["Rome"], 1.0)


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
    company = count_company(names, ids, ends, count=len(table), first=FIRST, limit=limit, common=0)
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


class TestCompanyByName:
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
