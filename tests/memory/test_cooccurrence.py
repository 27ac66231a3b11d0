"""Co-occurrence counts follow their definition; they are weighed, added, subtracted and compared."""

import pickle
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import OptionError, ShapeError
from attar.memory.cooccurrence import Cooccurrence, weigh_cooccurrences

# Ids 0 and 1 are not words, 2 to 6 are names, and 7 and 8 are common words.
FIRST, LIMIT, COMMON, WORDS = 2, 5, 9, 14
Sentences = list[list[int]]
Model = dict[tuple[int, int], int]


def counted(sentences: Sentences, count: int = LIMIT, **other: int) -> Cooccurrence:
    """The counts of a text, given as sentences of ids."""
    ids = joined(sentences)
    ends = [place == len(sentence) - 1 for sentence in sentences for place in range(len(sentence))]
    return count_one(numbers_of(ids), ids, ends, count, **other)


def count_one(names: list[int], ids: list[int], ends: list[int], count: int, **other: int) -> Cooccurrence:
    """The counts of one text."""
    (counts,) = Cooccurrence.count(names, ids, ends, [len(ids)], counts=[count], **options(**other))
    return counts


def weighted_sums(counts: Cooccurrence, weights: np.ndarray) -> np.ndarray:
    """The sum of weights[id] · log(1 + times) per name, for weights `[V]`, by plain loops."""
    return np.array(
        [
            sum(weights[token] * np.log1p(times) for token, times in counts.of(name).items())
            for name in range(len(counts))
        ]
    )


def joined(lists: list[list]) -> list:
    return list(chain.from_iterable(lists))


def numbers_of(ids: list[int]) -> list[int]:
    return [token - FIRST if FIRST <= token < FIRST + LIMIT else -1 for token in ids]


def options(first: int = FIRST, limit: int = LIMIT, common: int = COMMON) -> dict[str, int]:
    return {"first": first, "limit": limit, "common": common}


def modelled(sentences: Sentences) -> Model:
    """The counts by the definition, sentence by sentence."""
    times: Model = Counter()
    for sentence in sentences:
        for mention in sentence:
            if FIRST <= mention < FIRST + LIMIT:
                for token in set(sentence):
                    if FIRST <= token < FIRST + LIMIT or token >= COMMON:
                        times[mention - FIRST, token] += 1
    return dict(times)


def as_model(counts: Cooccurrence) -> Model:
    return {(name, token): times for name in range(len(counts)) for token, times in counts.of(name).items()}


def moved(times: Model, places: list[int]) -> Model:
    """The model with names renumbered."""
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
    def test_counts_follow_the_definition(self, sentences):
        assert as_model(counted(sentences)) == modelled(sentences)

    def test_a_token_counts_once_per_sentence_and_mention(self):
        assert counted([[2, 10, 10, 2, 3]]).of(0) == {2: 2, 3: 2, 10: 2}

    @settings(deadline=None)
    @given(texts)
    def test_mentions_are_the_occurrences_of_each_name(self, sentences):
        ids = Counter(joined(sentences))
        assert counted(sentences).mentions.tolist() == [ids[FIRST + name] for name in range(LIMIT)]

    def test_padding_blanks_and_common_words_are_not_counted(self):
        assert counted([[0, 1, 2, 7, 8, 9]]).of(0) == {2: 1, 9: 1}

    def test_without_common_words_all_ids_after_the_names_are_counted(self):
        assert counted([[0, 1, 2, 7, 8, 9]], common=0).of(0) == {2: 1, 7: 1, 8: 1, 9: 1}

    def test_tokens_of_other_sentences_are_not_counted(self):
        assert counted([[2, 10], [3, 11], [12]]).of(0) == {2: 1, 10: 1}

    def test_the_last_sentence_needs_no_end_mark(self):
        assert count_one([0, -1], [2, 10], [0, 0], 1).of(0) == {2: 1, 10: 1}

    @pytest.mark.parametrize("sentences", [[], [[10, 11]], [[0]]], ids=["no text", "no names", "no words"])
    def test_without_mentions_the_counts_are_empty(self, sentences):
        assert counted(sentences) == Cooccurrence.empty(LIMIT, FIRST, LIMIT)
        assert not counted(sentences).mentions.any()

    def test_a_table_without_names_gives_empty_counts(self):
        assert counted([[10, 11]], count=0) == Cooccurrence.empty(0, FIRST, LIMIT)

    @settings(deadline=None)
    @given(st.lists(texts, max_size=4))
    def test_counting_many_texts_equals_counting_each(self, many):
        ids = [joined(text) for text in many]
        ends = [[*[False] * (len(sentence) - 1), True] for text in many for sentence in text]
        flat, lengths = joined(ids), [len(text) for text in ids]
        found = Cooccurrence.count(
            numbers_of(flat), flat, joined(ends), lengths, counts=[LIMIT] * len(many), **options()
        )
        assert found == [counted(text) for text in many]

    def test_a_sentence_does_not_extend_into_the_next_text(self):
        found = Cooccurrence.count([0, 0], [2, 2], [0, 0], [1, 1], counts=[1, 1], **options())
        assert [counts.of(0) for counts in found] == [{2: 1}, {2: 1}]

    def test_many_texts_have_the_types_of_each_alone(self):
        long, short = [[2, 10]] * 300, [[2, 70_000]]
        ids = [2, 10] * 300 + [2, 70_000]
        found = Cooccurrence.count(
            numbers_of(ids), ids, [False, True] * 301, [600, 2], counts=[1, 1], **options()
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
            ([1, -1], [2, 10], [0, 1], "got name 1 with the id first [+] 0"),
        ],
        ids=["fewer names", "fewer ends", "a number of no name", "another name's id"],
    )
    def test_inconsistent_arguments_are_refused(self, names, ids, ends, line):
        with pytest.raises((OptionError, ShapeError), match=line):
            count_one(names, ids, ends, 2)

    def test_more_names_than_ids_are_refused(self):
        with pytest.raises(OptionError, match="names: expected at most 5, got 6"):
            counted([], count=6)

    @pytest.mark.parametrize("places", [[0, 1], [0, 1, 2, 3, 5], [0, 1, 2, 3, -1]])
    def test_places_must_be_one_per_name(self, places):
        with pytest.raises(ShapeError, match="a place below 5 for each of 5 names"):
            counted([[2]]).add(counted([[2]]), places, LIMIT)

    @pytest.mark.parametrize("act", [lambda a, b: a.add(b, [], 5), lambda a, b: a.subtract(b, [])])
    def test_counts_with_other_name_ids_are_refused(self, act):
        with pytest.raises(OptionError, match="5 names from id 2 on, got 4 names from id 2 on"):
            act(counted([[2]]), Cooccurrence.empty(0, FIRST, 4))


class TestWeighing:
    @pytest.mark.slow
    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(texts, st.integers(0, 3), weightings, st.sets(st.integers(0, WORDS - 1))), max_size=5
        )
    )
    def test_each_name_has_the_weighted_sum_of_its_tokens(self, questions):
        memories = [counted(sentences).pad(LIMIT + more) for sentences, more, _, _ in questions]
        asked = [sorted(tokens) for _, _, _, tokens in questions]
        weights = [
            [given[token] for token in tokens]
            for (_, _, given, _), tokens in zip(questions, asked, strict=True)
        ]
        starts = np.cumsum([0, *map(len, asked)])
        found = weigh_cooccurrences(
            memories,
            np.array(joined(asked), np.int64),
            np.array(joined(weights), np.float32)[:, None],
            starts,
        )[:, :, 0]
        assert found.shape == (len(memories), max(map(len, memories), default=0))
        for row, counts, tokens, own in zip(found, memories, asked, weights, strict=True):
            alone = np.zeros(WORDS, np.float32)
            alone[tokens] = own
            assert np.allclose(row[: len(counts)], weighted_sums(counts, alone), rtol=0, atol=1e-4)
            assert not row[len(counts) :].any()

    def test_the_weights_of_a_repeated_token_add_up(self):
        counts = counted([[2, 10]], 1)
        found = weigh_cooccurrences(
            [counts], np.array([10, 10]), np.array([[1.0], [2.0]], np.float32), np.array([0, 2])
        )
        assert found.tolist() == [[[pytest.approx(3 * np.log(2))]]]

    def test_a_token_may_have_several_weights(self):
        counts = counted([[2, 10, 11], [3, 11]])
        ids, weights = np.array([10, 11]), np.array([[1.0, 3.0], [2.0, 0.0]], np.float32)
        found = weigh_cooccurrences([counts], ids, weights, np.array([0, 2]))
        for column in (0, 1):
            alone = weigh_cooccurrences([counts], ids, weights[:, [column]], np.array([0, 2]))
            np.testing.assert_allclose(found[:, :, [column]], alone)

    def test_the_weights_of_a_question_do_not_apply_to_the_next(self):
        counts = counted([[2, 10]], 1)
        found = weigh_cooccurrences(
            [counts] * 2, np.array([10]), np.ones((1, 1), np.float32), np.array([0, 1, 1])
        )
        assert found[1].tolist() == [[0.0]]

    def test_memories_without_names_give_an_empty_result(self):
        empty = Cooccurrence.empty(0, FIRST, LIMIT)
        found = weigh_cooccurrences(
            [empty] * 2, np.array([3]), np.ones((1, 1), np.float32), np.array([0, 1, 1])
        )
        assert found.shape == (2, 0, 1)

    def test_negative_ids_are_refused(self):
        with pytest.raises(OptionError, match="ids: expected token ids of at least 0, got -1"):
            weigh_cooccurrences([counted([])], np.array([-1]), np.ones((1, 1), np.float32), np.array([0, 1]))

    def test_question_starts_must_be_one_more_than_the_memories(self):
        with pytest.raises(ShapeError, match=r"question_starts: expected \[2\], .*got \[1\]"):
            weigh_cooccurrences([counted([])], np.array([3]), np.ones((1, 1), np.float32), np.array([0]))


class TestAlgebra:
    @settings(deadline=None)
    @given(texts, texts, numberings)
    def test_added_counts_are_those_of_both_under_the_new_places(self, a, b, places):
        total = Counter(modelled(a)) + Counter(moved(modelled(b), places))
        assert as_model(counted(a).add(counted(b), places, LIMIT)) == total

    @settings(deadline=None)
    @given(texts, texts)
    def test_adding_the_counts_of_two_texts_equals_counting_both(self, a, b):
        assert counted(a).add(counted(b), range(LIMIT), LIMIT) == counted(a + b)

    @settings(deadline=None)
    @given(texts, texts, numberings)
    def test_subtracting_undoes_adding(self, a, b, places):
        whole = counted(a).add(counted(b), places, LIMIT)
        assert whole.subtract(counted(b), places) == counted(a)

    @settings(deadline=None)
    @given(texts, texts)
    def test_larger_counts_cannot_be_subtracted(self, a, b):
        if all(modelled(a).get(entry, 0) >= times for entry, times in modelled(b).items()):
            assert counted(a).subtract(counted(b), range(LIMIT)).add(counted(b), range(LIMIT), 0) == counted(
                a
            )
        else:
            with pytest.raises(OptionError, match="a - b: expected a part of what a was read from"):
                counted(a).subtract(counted(b), range(LIMIT))

    def test_two_names_may_be_added_to_one(self):
        later = counted([[2, 10], [3, 10]], 2)
        assert Cooccurrence.empty(1, FIRST, LIMIT).add(later, [0, 0], 1).of(0) == {2: 2, 10: 2}

    def test_padding_adds_names_without_entries(self):
        counts = counted([[2, 10]], 1)
        assert [counts.pad(3).of(name) for name in range(3)] == [{2: 1, 10: 1}, {}, {}]
        assert counts.pad(0) is counts


class TestTypes:
    @pytest.mark.parametrize(("token", "kind"), [(65_535, "uint16"), (65_536, "int32"), (2**31 - 1, "int32")])
    def test_ids_have_the_smallest_type_that_holds_them(self, token, kind):
        counts = counted([[2, token]], 1)
        assert counts.ids.dtype == kind
        assert counts.of(0) == {2: 1, token: 1}

    @pytest.mark.parametrize(("times", "kind"), [(255, "uint8"), (256, "uint16"), (65_536, "uint32")])
    def test_counts_have_the_smallest_type_that_holds_them(self, times, kind):
        counts = counted([[2, 10]] * times, 1)
        assert counts.times.dtype == kind
        ids, weights = np.array([2, 10]), np.ones((2, 1), np.float32)
        sums = weigh_cooccurrences([counts], ids, weights, np.array([0, 2]))
        assert sums.tolist() == [[[pytest.approx(2 * np.log1p(times))]]]

    def test_types_shrink_again_after_subtracting(self):
        whole, part = counted([[2, 10]] * 256 + [[2, 70_000]], 1), counted([[2, 10], [2, 70_000]], 1)
        left = whole.subtract(part, [0])
        assert (left.ids.dtype, left.times.dtype) == ("uint16", "uint8")
        assert left == counted([[2, 10]] * 255, 1)

    def test_counts_are_read_only(self):
        with pytest.raises(ValueError, match="read-only"):
            counted([[2]]).times[0] = 9


class TestValue:
    @settings(deadline=None)
    @given(texts, texts)
    def test_equality_is_that_of_the_counts(self, a, b):
        assert (counted(a) == counted(b)) == (modelled(a) == modelled(b))
        assert counted(a) == pickle.loads(pickle.dumps(counted(a)))

    def test_counts_of_other_names_and_other_objects_are_not_equal(self):
        counts = counted([[2, 10]], 1)
        assert counts != counts.pad(2)
        assert counts != counted([[2, 10]], 1, limit=4)
        assert counts != 0
