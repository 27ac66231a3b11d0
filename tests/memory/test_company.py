"""A name's company is what shared sentences with it, counted: it is weighed, added, taken out, and kept."""

import pickle
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import OptionError, ShapeError
from attar.memory.company import Company, weighed_many
from attar.memory.counting import count_companies, count_company

# Ids 0 and 1 are no words, names have 2 to 6, and the words 7 and 8 are common.
FIRST, LIMIT, COMMON, WORDS = 2, 5, 9, 14
Sentences = list[list[int]]
Model = dict[tuple[int, int], int]


def counted(sentences: Sentences, count: int = LIMIT, **other: int) -> Company:
    """The company in sentences of ids."""
    ids = joined(sentences)
    ends = [place == len(sentence) - 1 for sentence in sentences for place in range(len(sentence))]
    return count_company(numbers_of(ids), ids, ends, count=count, **spelled(**other))


def joined(lists: list[list]) -> list:
    return list(chain.from_iterable(lists))


def numbers_of(ids: list[int]) -> list[int]:
    return [token - FIRST if FIRST <= token < FIRST + LIMIT else -1 for token in ids]


def spelled(first: int = FIRST, limit: int = LIMIT, common: int = COMMON) -> dict[str, int]:
    return {"first": first, "limit": limit, "common": common}


def modelled(sentences: Sentences) -> Model:
    """The same by the definition, one sentence after the other."""
    times: Model = Counter()
    for sentence in sentences:
        for mention in sentence:
            if FIRST <= mention < FIRST + LIMIT:
                for token in set(sentence):
                    if FIRST <= token < FIRST + LIMIT or token >= COMMON:
                        times[mention - FIRST, token] += 1
    return dict(times)


def as_model(company: Company) -> Model:
    return {(name, token): times for name in range(len(company)) for token, times in company.of(name).items()}


def moved(times: Model, places: list[int]) -> Model:
    """The model under other numbers of names."""
    found: Model = Counter()
    for (name, token), number in times.items():
        is_name = FIRST <= token < FIRST + LIMIT
        found[places[name], FIRST + places[token - FIRST] if is_name else token] += number
    return dict(found)


texts = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=8), max_size=6)
numberings = st.lists(st.integers(0, LIMIT - 1), min_size=LIMIT, max_size=LIMIT)
weightings = st.lists(st.floats(-4, 4, width=32), min_size=WORDS, max_size=WORDS)


class TestCounting:
    @settings(deadline=None)
    @given(texts)
    def test_counts_are_those_of_the_definition(self, sentences):
        assert as_model(counted(sentences)) == modelled(sentences)

    def test_a_token_counts_once_a_sentence_for_every_mention(self):
        assert counted([[2, 10, 10, 2, 3]]).of(0) == {2: 2, 3: 2, 10: 2}

    @settings(deadline=None)
    @given(texts)
    def test_a_name_is_in_its_own_company_as_often_as_it_is_mentioned(self, sentences):
        ids = Counter(joined(sentences))
        assert counted(sentences).mentions().tolist() == [ids[FIRST + name] for name in range(LIMIT)]

    def test_padding_blanks_and_common_words_are_left_out(self):
        assert counted([[0, 1, 2, 7, 8, 9]]).of(0) == {2: 1, 9: 1}

    def test_without_common_words_all_that_are_no_names_count_from_behind_the_names_on(self):
        assert counted([[0, 1, 2, 7, 8, 9]], common=0).of(0) == {2: 1, 7: 1, 8: 1, 9: 1}

    def test_what_is_in_another_sentence_is_not_company(self):
        assert counted([[2, 10], [3, 11], [12]]).of(0) == {2: 1, 10: 1}

    def test_the_last_sentence_need_not_be_ended(self):
        assert count_company([0, -1], [2, 10], [0, 0], count=1, **spelled()).of(0) == {2: 1, 10: 1}

    @pytest.mark.parametrize("sentences", [[], [[10, 11]], [[0]]], ids=["no text", "no names", "no words"])
    def test_where_no_name_is_mentioned_there_is_no_company(self, sentences):
        assert counted(sentences) == Company.empty(LIMIT, FIRST, LIMIT)
        assert not counted(sentences).mentions().any()

    def test_a_text_of_a_table_without_names(self):
        company = counted([[10, 11]], count=0)
        assert len(company) == 0
        assert company.weighed(np.ones(WORDS, np.float32)).shape == (0,)

    @settings(deadline=None)
    @given(st.lists(texts, max_size=4))
    def test_many_texts_at_once_are_each_alone(self, many):
        ids = [joined(text) for text in many]
        ends = [[*[False] * (len(sentence) - 1), True] for text in many for sentence in text]
        flat, lengths = joined(ids), [len(text) for text in ids]
        found = count_companies(
            numbers_of(flat), flat, joined(ends), lengths, counts=[LIMIT] * len(many), **spelled()
        )
        assert found == [counted(text) for text in many]

    def test_a_sentence_does_not_reach_into_the_next_text(self):
        found = count_companies([0, 0], [2, 2], [0, 0], [1, 1], counts=[1, 1], **spelled())
        assert [company.of(0) for company in found] == [{2: 1}, {2: 1}]

    def test_texts_counted_together_are_as_narrow_as_alone(self):
        long, short = [[2, 10]] * 300, [[2, 70_000]]
        ids = [2, 10] * 300 + [2, 70_000]
        found = count_companies(
            numbers_of(ids), ids, [False, True] * 301, [600, 2], counts=[1, 1], **spelled()
        )
        assert found == [counted(long, 1), counted(short, 1)]
        assert [(one.ids.dtype, one.times.dtype) for one in found] == [
            ("uint16", "uint16"),
            ("int32", "uint8"),
        ]


class TestRefusals:
    @pytest.mark.parametrize(
        ("names", "ids", "ends", "line"),
        [
            ([0], [2, 10], [0, 1], r"names and ids: expected \[2\]"),
            ([0, -1], [2, 10], [0], r"sentence ends: expected \[2\], as long as the texts, got \[1\]"),
            ([3, -1], [5, 10], [0, 1], "numbers below 2, .*got name 3"),
            ([1, -1], [2, 10], [0, 1], "got name 1, whose id is the first [+] 0"),
        ],
        ids=["fewer names", "fewer ends", "a number of no name", "another name's id"],
    )
    def test_tokens_that_do_not_fit_together(self, names, ids, ends, line):
        with pytest.raises((OptionError, ShapeError), match=line):
            count_company(names, ids, ends, count=2, **spelled())

    def test_more_names_than_have_ids(self):
        with pytest.raises(OptionError, match="names: expected at most 5, got 6"):
            counted([], count=6)

    def test_weights_of_fewer_tokens_than_there_are(self):
        with pytest.raises(ShapeError, match=r"weights: expected \[V\] with V > 12, got \[12\]"):
            counted([[2, 12]]).weighed(np.ones(12, np.float32))

    @pytest.mark.parametrize("places", [[0, 1], [0, 1, 2, 3, 5], [0, 1, 2, 3, -1]])
    def test_places_that_are_not_one_for_each_name(self, places):
        with pytest.raises(ShapeError, match="a place below 5 for each of 5 names"):
            counted([[2]]).added(counted([[2]]), places, LIMIT)

    @pytest.mark.parametrize("act", [lambda a, b: a.added(b, [], 5), lambda a, b: a.subtracted(b, [])])
    def test_ids_that_mean_other_things(self, act):
        with pytest.raises(OptionError, match="5 names from id 2 on, got 4 names from id 2 on"):
            act(counted([[2]]), Company.empty(0, FIRST, 4))


class TestWeighing:
    @settings(deadline=None)
    @given(texts, weightings)
    def test_each_name_has_the_sum_of_its_tokens(self, sentences, weights):
        expected = np.zeros(LIMIT)
        for (name, token), times in modelled(sentences).items():
            expected[name] += weights[token] * np.log1p(times)
        weighed = counted(sentences).weighed(np.array(weights, np.float32))
        assert np.allclose(weighed, expected, rtol=0, atol=1e-4)

    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(texts, st.integers(0, 3), weightings, st.sets(st.integers(0, WORDS - 1))), max_size=5
        )
    )
    def test_many_questions_at_once_are_each_alone(self, questions):
        companies = [counted(sentences).with_room(LIMIT + more) for sentences, more, _, _ in questions]
        asked = [sorted(tokens) for _, _, _, tokens in questions]
        weights = [
            [given[token] for token in tokens]
            for (_, _, given, _), tokens in zip(questions, asked, strict=True)
        ]
        starts = np.cumsum([0, *map(len, asked)])
        found = weighed_many(
            companies,
            np.array(joined(asked), np.int64),
            np.array(joined(weights), np.float32)[:, None],
            starts,
        )[:, :, 0]
        assert found.shape == (len(companies), max(map(len, companies), default=0))
        for row, company, tokens, own in zip(found, companies, asked, weights, strict=True):
            alone = np.zeros(WORDS, np.float32)
            alone[tokens] = own
            assert np.allclose(row[: len(company)], company.weighed(alone), rtol=0, atol=1e-4)
            assert not row[len(company) :].any()

    def test_a_token_asked_for_twice_has_both_weights(self):
        company = counted([[2, 10]], 1)
        found = weighed_many(
            [company], np.array([10, 10]), np.array([[1.0], [2.0]], np.float32), np.array([0, 2])
        )
        assert found.tolist() == [[[pytest.approx(3 * np.log(2))]]]

    def test_several_weights_of_a_token_are_weighed_at_once(self):
        company = counted([[2, 10, 11], [3, 11]])
        ids, weights = np.array([10, 11]), np.array([[1.0, 3.0], [2.0, 0.0]], np.float32)
        found = weighed_many([company], ids, weights, np.array([0, 2]))
        for column in (0, 1):
            alone = weighed_many([company], ids, weights[:, [column]], np.array([0, 2]))
            np.testing.assert_allclose(found[:, :, [column]], alone)

    def test_one_questions_weights_are_not_the_nexts(self):
        company = counted([[2, 10]], 1)
        found = weighed_many([company] * 2, np.array([10]), np.ones((1, 1), np.float32), np.array([0, 1, 1]))
        assert found[1].tolist() == [[0.0]]

    def test_companies_without_names_weigh_nothing(self):
        nobody = Company.empty(0, FIRST, LIMIT)
        found = weighed_many([nobody] * 2, np.array([3]), np.ones((1, 1), np.float32), np.array([0, 1, 1]))
        assert found.shape == (2, 0, 1)

    def test_ids_below_0_are_none(self):
        with pytest.raises(OptionError, match="asked_ids: expected ids of tokens, from 0 up, got -1"):
            weighed_many([counted([])], np.array([-1]), np.ones((1, 1), np.float32), np.array([0, 1]))

    def test_starts_are_one_more_than_the_companies(self):
        with pytest.raises(ShapeError, match=r"asked_starts: expected \[2\], .*got \[1\]"):
            weighed_many([counted([])], np.array([3]), np.ones((1, 1), np.float32), np.array([0]))


class TestAlgebra:
    @settings(deadline=None)
    @given(texts, texts, numberings)
    def test_what_is_added_is_added_under_the_names_here(self, a, b, places):
        total = Counter(modelled(a)) + Counter(moved(modelled(b), places))
        assert as_model(counted(a).added(counted(b), places, LIMIT)) == total

    @settings(deadline=None)
    @given(texts, texts)
    def test_counting_two_texts_apart_and_adding_is_counting_both(self, a, b):
        assert counted(a).added(counted(b), range(LIMIT), LIMIT) == counted(a + b)

    @settings(deadline=None)
    @given(texts, texts, numberings)
    def test_what_was_added_can_be_taken_out_again(self, a, b, places):
        whole = counted(a).added(counted(b), places, LIMIT)
        assert whole.subtracted(counted(b), places) == counted(a)

    @settings(deadline=None)
    @given(texts, texts)
    def test_more_cannot_be_taken_out_than_is_there(self, a, b):
        if all(modelled(a).get(entry, 0) >= times for entry, times in modelled(b).items()):
            assert counted(a).subtracted(counted(b), range(LIMIT)).added(
                counted(b), range(LIMIT), 0
            ) == counted(a)
        else:
            with pytest.raises(OptionError, match="a - b: expected a part of what a was read from"):
                counted(a).subtracted(counted(b), range(LIMIT))

    def test_two_later_names_may_be_one_here(self):
        later = counted([[2, 10], [3, 10]], 2)
        assert Company.empty(1, FIRST, LIMIT).added(later, [0, 0], 1).of(0) == {2: 2, 10: 2}

    def test_room_is_for_names_without_company(self):
        company = counted([[2, 10]], 1)
        assert [company.with_room(3).of(name) for name in range(3)] == [{2: 1, 10: 1}, {}, {}]
        assert company.with_room(0) is company


class TestTypes:
    @pytest.mark.parametrize(("token", "kind"), [(65_535, "uint16"), (65_536, "int32"), (2**31 - 1, "int32")])
    def test_ids_are_as_narrow_as_the_highest_allows(self, token, kind):
        company = counted([[2, token]], 1)
        assert company.ids.dtype == kind
        assert company.of(0) == {2: 1, token: 1}

    @pytest.mark.parametrize(("times", "kind"), [(255, "uint8"), (256, "uint16"), (65_536, "uint32")])
    def test_counts_are_as_narrow_as_the_highest_allows(self, times, kind):
        company = counted([[2, 10]] * times, 1)
        assert company.times.dtype == kind
        assert company.weighed(np.ones(WORDS, np.float32)).tolist() == [pytest.approx(2 * np.log1p(times))]

    def test_they_are_narrow_again_when_the_rest_is_taken_out(self):
        whole, part = counted([[2, 10]] * 256 + [[2, 70_000]], 1), counted([[2, 10], [2, 70_000]], 1)
        left = whole.subtracted(part, [0])
        assert (left.ids.dtype, left.times.dtype) == ("uint16", "uint8")
        assert left == counted([[2, 10]] * 255, 1)

    def test_its_counts_cannot_be_written(self):
        with pytest.raises(ValueError, match="read-only"):
            counted([[2]]).times[0] = 9


class TestValue:
    @settings(deadline=None)
    @given(texts, texts)
    def test_equal_where_the_counts_are(self, a, b):
        assert (counted(a) == counted(b)) == (modelled(a) == modelled(b))
        assert counted(a) == pickle.loads(pickle.dumps(counted(a)))

    def test_other_names_and_other_things_are_not_equal(self):
        company = counted([[2, 10]], 1)
        assert company != company.with_room(2)
        assert company != counted([[2, 10]], 1, limit=4)
        assert company != 0
