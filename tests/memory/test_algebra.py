"""Adding the memories of two texts equals reading both; subtracting removes a part."""

import numpy as np
import pytest

from attar.errors import OptionError, ReaderMismatchError, ShapeError
from attar.memory.memory import Memory, quantize
from attar.memory.phrases import JOINT
from tests.memory.made import K, memory_of, texts_of
from tests.memory.test_phrases import A, B, check_places

C = A + " Once."
BOTH_WAYS = pytest.mark.parametrize("act", [Memory.__add__, Memory.__sub__], ids=["+", "-"])


class TestPhrases:
    def test_a_sum_has_the_phrases_and_scores_of_both_texts(self):
        a, b = memory_of(A, seed=1), memory_of(B, seed=2)
        both, queries = a + b, np.random.default_rng(0).standard_normal((3, K))
        check_places(both.phrases, A + JOINT + B)
        assert both.tokens == a.tokens + b.tokens
        separate = np.concatenate((a.lookup(queries), b.lookup(queries)), 1)
        np.testing.assert_allclose(both.lookup(queries), separate, atol=1e-5)

    def test_vectors_are_not_rounded_again(self):
        a, b = memory_of(A, seed=1), memory_of(B, seed=2)
        assert (a + b).numbers.tolist() == [*a.numbers.tolist(), *b.numbers.tolist()]
        assert (a + b).scales.tolist() == [*a.scales.tolist(), *b.scales.tolist()]

    def test_sums_are_associative(self):
        a, b, c = (memory_of(text, seed=seed) for seed, text in enumerate((A, B, C)))
        assert (a + b) + c == a + (b + c) == sum([a, b, c])

    def test_subtracting_leaves_the_vectors_of_the_rest_where_they_are(self):
        parts = [memory_of(text, seed=seed) for seed, text in enumerate((A, B, C))]
        whole = sum(parts)
        for part in parts:
            rest, others = whole - part, [other for other in parts if other is not part]
            assert texts_of(rest.phrases) == [text for other in others for text in texts_of(other.phrases)]
            check_places(rest.phrases, JOINT.join((A, B, C)))
            assert rest.numbers.tolist() == [row for other in others for row in other.numbers.tolist()]
            assert rest.tokens == whole.tokens - part.tokens
            assert Memory.from_bytes(rest.to_bytes()) == rest


class TestRidge:
    def test_sums_are_added_and_rounded_once(self):
        a, b = memory_of(A, form="ridge", seed=1), memory_of(B, form="ridge", seed=2)
        numbers, scales = quantize(a.dequantized + b.dequantized)
        assert (a + b).numbers.tolist() == numbers.tolist()
        assert (a + b).scales.tolist() == scales.tolist()
        assert texts_of((a + b).phrases) == texts_of(a.phrases) + texts_of(b.phrases)


class TestRefusals:
    @BOTH_WAYS
    @pytest.mark.parametrize(
        ("other", "error", "line"),
        [
            (memory_of(A, reader="s"), ReaderMismatchError, "of two readers, 'r' and 's'; read both texts"),
            (memory_of(A, form="ridge"), OptionError, "two memories of form phrases, got phrases and ridge"),
            (memory_of(A, k=5), ShapeError, r"expected \[10, 4\], got \[10, 5\]"),
        ],
        ids=["reader", "form", "size"],
    )
    def test_memories_that_do_not_fit_together(self, act, other, error, line):
        with pytest.raises(error, match=line):
            act(memory_of(A), other)

    def test_a_part_larger_than_the_whole(self):
        with pytest.raises(OptionError, match="a part of the 8 tokens of a, got 9 tokens"):
            memory_of(A) - memory_of(C)

    def test_a_text_that_was_not_added(self):
        with pytest.raises(OptionError, match="b is not a text that was added to a; if a or b has a budget"):
            memory_of(A) - memory_of("Tom slept. Bob saw Ann and Zoë.")
