"""A phrase reader reads a text window by window; extending a memory equals reading the texts at once."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import DtypeError, OptionError
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.reader.phrase_texts import PARAGRAPH, WINDOW, cut_windows
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from attar.text.sentences import sentence_spans

SHORT = "Ann met Bob in Bath. He wrote a letter to the house of Lee."
ODD = {
    "control characters": "\x00\x07Ann\x1b met\u200b Bob.\x00 \x01\x02 He left.\x7f",
    "emoji": "🙂 Ann 👩‍👩‍👧 met 🙂🙂 Bob. 🙂 left.",
    "Chinese": "安在巴斯见到了鲍勃。他写了一封信。" * 60,
    "Korean": "안녕하세요안은배스에서밥을만났다" * 60,
    "Arabic": "التقت آن بوب في باث. كتب رسالة.",
    "combining": "A\u0301nn\u0308 met Z\u0308oe. E\u0301 left.",
    "lone surrogates": "Ann \ud800 met \udfff Bob. He \ud83d left.",
    "one long word": "Ann met " + "x" * 70_000 + " in Bath. Bob left.",
    "no spaces": "ann,bob;" * 900,
    "blank lines": "\n\n \n\nAnn met Bob.\n\n\n\n\nHe left.\n \n",
    "spaces": " \n\t ",
    "empty": "",
    "one word": "Ann",
    "a full stop": ".",
}


def story(sentences: int, seed: int = 0) -> str:
    """Sentences of 1 to 30 words, some of them the last of a paragraph."""
    rng = np.random.default_rng(seed)
    words = np.array(
        [
            "Ann",
            "Bob",
            "Lee",
            "the",
            "house",
            "Bath",
            "letter",
            "ran",
            "wrote",
            "quickly",
            "and",
            "1999",
            "of",
            "Zoe",
        ]
    )
    made = [" ".join(rng.choice(words, rng.integers(1, 30))) + "." for _ in range(sentences)]
    return "".join(each + ("\n\n" if rng.random() < 0.1 else " ") for each in made)


def article(paragraphs: int) -> str:
    """Paragraphs of this project's log of experiments: real sentences of all lengths."""
    text = (Path(__file__).parents[2] / "benchmarks" / "LOG.md").read_text()
    return "\n\n".join(text[at * 1_500 : at * 1_500 + 1_100] for at in range(paragraphs))


def check_sound(memory: Memory, text: str) -> None:
    """Every phrase is the text at its place, inside its sentence; the memory can be written and read."""
    index = memory.phrases
    assert index.characters == len(text)
    assert list(zip(index.sentence_starts, index.sentence_starts + index.sentence_lengths, strict=True)) == [
        *sentence_spans(text)
    ]
    for at in range(len(index)):
        start, (first, last) = int(index.starts[at]), index.sentence_of(at)
        assert index.text_of(at) == text[start : start + int(index.lengths[at])]
        assert first <= start <= start + int(index.lengths[at]) <= last
    assert text.endswith(index.tail)
    assert Memory.from_bytes(memory.to_bytes()) == memory


def check_close(one: Memory, other: Memory) -> None:
    """Two memories have the same index, and vectors within one int8 level."""
    assert one.tokens == other.tokens
    assert one.phrases == other.phrases
    scales = np.abs(other.to_float32()).max(1, keepdims=True, initial=1e-9)
    assert (np.abs(one.to_float32() - other.to_float32()) <= 1.01 * scales / 127).all()


class TestWindows:
    @pytest.mark.parametrize("text", [story(60), "word " * 5_000, *ODD.values()], ids=["story", "long", *ODD])
    def test_windows_are_whole_sentences_of_at_most_318_pieces(self, phrase_reader, text):
        windows, spans = cut_windows(phrase_reader.tokenizer, text), list(sentence_spans(text))
        assert all(0 < len(window.ids) <= WINDOW for window in windows)
        for before, after in pairwise(windows):
            if before.sentences[-1] == after.sentences[0]:  # a sentence that is longer than a window
                (ids, _), *_ = phrase_reader.tokenizer.read_sentences(
                    [text[slice(*spans[after.sentences[0]])]]
                )
                assert len(ids) > WINDOW

    def test_no_piece_is_lost(self, phrase_reader):
        text = story(60) + "x y " * 2_000
        windows = cut_windows(phrase_reader.tokenizer, text)
        (whole,) = phrase_reader.tokenizer.read([text])
        assert np.concatenate([window.ids for window in windows]).tolist() == whole.ids.tolist()
        assert np.concatenate([window.places for window in windows])[:, 0].tolist() == whole.starts.tolist()

    def test_a_window_ends_at_a_blank_line_once_it_is_long_enough(self, phrase_reader):
        paragraph = "a " * (PARAGRAPH - 1) + "."
        windows = cut_windows(phrase_reader.tokenizer, f"{paragraph}\n\n{paragraph} a. a.\n\na.\n\na a.")
        assert [len(window.ids) for window in windows] == [128, 132, 5]


class TestReading:
    @pytest.mark.parametrize("text", [SHORT, story(60), "x y " * 2_500, *ODD.values()],
                             ids=["short", "story", "5,000 words", *ODD])  # fmt: skip
    def test_a_memory_has_phrases_of_the_text(self, phrase_reader, text):
        memory = phrase_reader.read(text)
        check_sound(memory, text)
        pieces = sum(len(window.ids) for window in cut_windows(phrase_reader.tokenizer, text))
        assert memory.tokens == pieces
        # At most as many as the density says, per window.
        assert len(memory.phrases) <= 0.4 * pieces + len(cut_windows(phrase_reader.tokenizer, text))
        assert (memory.form, memory.dtype) == ("phrases", "int8")

    def test_a_batch_gives_the_memories_of_single_texts(self, phrase_reader):
        texts = [SHORT, story(40), "", "Ann"]
        for batch_size in (1, 3):
            together = phrase_reader.read_many(texts, batch_size=batch_size)
            for memory, text in zip(together, texts, strict=True):
                check_close(memory, phrase_reader.read(text))

    @pytest.mark.slow
    def test_a_memory_has_the_same_bytes_whatever_is_read_with_it_and_by_how_many_threads(self):
        reader, texts = Reader.load(), [SHORT, story(30), "Ann", story(47), f"{story(9)} {SHORT}", story(9)]

        def read(texts):
            states = []
            memories = reader.read_many(texts, on_states=lambda *each: states.append(each))
            return [
                (memory.to_bytes(), [own.tobytes() for number, _, own in states if number == at])
                for at, memory in enumerate(memories)
            ]

        before = torch.get_num_threads()
        alone = [read([text])[0] for text in texts]
        try:
            for threads in (1, 3):
                torch.set_num_threads(threads)
                assert read(texts) == alone
                assert read(texts[::-1]) == alone[::-1]
                assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)

    def test_progress_counts_windows(self, phrase_reader):
        told = []
        phrase_reader.read_many([story(60)], batch_size=1, progress=lambda *each: told.append(each))
        count = len(cut_windows(phrase_reader.tokenizer, story(60)))
        assert told == [("reading", at, count) for at in range(count)]

    def test_what_is_not_a_text_is_refused(self, phrase_reader):
        with pytest.raises(DtypeError, match="text: expected a string, got int"):
            phrase_reader.read(3)
        with pytest.raises(OptionError, match="batch_size"):
            phrase_reader.read_many([SHORT], batch_size=0)


class TestDistinct:
    """A reader may keep only one of the phrases that are the same answer."""

    @pytest.fixture
    def distinct_reader(self, saved_phrases):
        return PhraseReader(replace(saved_phrases, density=10, distinct=True))

    def test_of_phrases_with_an_article_or_marks_around_them_the_likeliest_is_kept(
        self, saved_phrases, distinct_reader
    ):
        text = "The letter, in the house, was a letter to Ann."
        every = PhraseReader(replace(saved_phrases, density=10)).read(text).phrases
        kept = distinct_reader.read(text).phrases
        best: dict[tuple[int, int], tuple[float, str]] = {}
        for at in range(len(every)):
            phrase, start = every.text_of(at), int(every.starts[at])
            core = re.sub(r"^(?:(?:the|a|,|\.)\s*)*|[\s,.]*$", "", phrase, flags=re.IGNORECASE)
            if core:
                first = start + phrase.index(core)
                likely = float(every.priors[at]), phrase
                best[first, first + len(core)] = max(best.get((first, first + len(core)), likely), likely)
        expected = sorted(phrase for _, phrase in best.values())
        assert sorted(text for text in phrases_of(kept) if text.strip(" ,.").lower() not in EMPTY) == expected
        assert len(expected) < len(every)

    def test_marks_that_stand_for_words_and_articles_at_the_end_are_kept(self, distinct_reader):
        kept = phrases_of(distinct_reader.read("He met 9 % of it. Ann left house a to Bob.").phrases)
        assert {"9", "9 %", "house", "house a"} <= set(kept)

    @pytest.mark.parametrize("text", [SHORT, story(60), *ODD.values()], ids=["short", "story", *ODD])
    def test_any_text_is_read(self, saved_phrases, text):
        check_sound(PhraseReader(replace(saved_phrases, distinct=True)).read(text), text)

    def test_a_batch_gives_the_memories_of_single_texts(self, saved_phrases):
        texts, reader = [SHORT, story(40)], PhraseReader(replace(saved_phrases, distinct=True))
        for memory, text in zip(reader.read_many(texts, batch_size=4), texts, strict=True):
            check_close(memory, reader.read(text))


EMPTY = ("", "the", "a")


def phrases_of(index) -> list[str]:
    return index.texts_of(np.arange(len(index)))


class TestExtending:
    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (SHORT, "Lee left."),
            (story(70, 1), story(50, 2)),
            (story(70, 1) + "and then", "and more " * 400),
            ("x y z " * 300, "Bob left. " * 3),
            (SHORT, ""),
            ("", SHORT),
            (" \n\n ", SHORT),
            ("\x00 Ann left.", "\x00\x00"),
            *((text, SHORT) for text in ODD.values()),
            *((SHORT, ODD[name]) for name in ("Korean", "lone surrogates", "blank lines")),
        ],
    )
    def test_extending_equals_reading_both_texts_at_once(self, phrase_reader, a, b):
        extended = phrase_reader.extend(phrase_reader.read(a), b)
        whole = a + JOINT + b if a else b
        check_sound(extended, whole)
        assert extended.to_bytes() == phrase_reader.read(whole).to_bytes()

    def test_a_text_may_come_in_many_parts(self, phrase_reader):
        parts = [story(count, count) for count in (3, 30, 1, 12, 40, 2)]
        memory = phrase_reader.read(parts[0])
        for part in parts[1:]:
            memory = phrase_reader.extend(memory, part)
        assert memory.to_bytes() == phrase_reader.read(JOINT.join(parts)).to_bytes()

    @settings(deadline=None, max_examples=15)
    @given(a=st.text(max_size=60), b=st.text(max_size=60))
    def test_extending_equals_reading_both_for_any_characters(self, phrase_reader, a, b):
        extended = phrase_reader.extend(phrase_reader.read(a), b)
        check_sound(extended, a + JOINT + b if a else b)
        assert extended.to_bytes() == phrase_reader.read(a + JOINT + b if a else b).to_bytes()

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", ["int8", "float32"])
    def test_the_default_reader_extends_to_the_same_bytes(self, dtype):
        # Windows of 60 to 318 pieces: in batches they would be padded, and rounded, according to the others.
        reader, parts = Reader.load(), [*map(article, (2, 1, 3))]
        memory = reader.read(parts[0]).astype(dtype)
        for at, part in enumerate(parts[1:], 2):
            memory = reader.extend(memory, part)
            assert memory.to_bytes() == reader.read(JOINT.join(parts[:at])).astype(dtype).to_bytes()

    def test_merging_and_subtracting_round_nothing_again(self, phrase_reader):
        first, second = phrase_reader.read(story(20, 1)), phrase_reader.read(story(20, 2))
        both = first + second
        count = len(first.numbers)
        assert both.numbers[:count].tobytes() == first.numbers.tobytes()
        assert both.scales[:count].tobytes() == first.scales.tobytes()
        assert both.scales[count:].tobytes() == second.scales.tobytes()
        rest = both - second
        assert rest.numbers.tobytes() == first.numbers.tobytes()
        assert rest.scales.tobytes() == first.scales.tobytes()

    def test_a_subtracted_text_does_not_come_back(self, phrase_reader):
        part = phrase_reader.read("Zoe was here.")
        rest = phrase_reader.read(SHORT) + part - part
        extended = phrase_reader.extend(rest, "Lee ran.")
        found = {extended.phrases.text_of(at) for at in range(len(extended.phrases))}
        assert not any("Zoe" in phrase or "here" in phrase for phrase in found)
        assert any("ran" in phrase for phrase in found)
        assert extended.tokens == phrase_reader.read(SHORT + JOINT + "Lee ran.").tokens

    def test_a_memory_of_another_reader_is_refused(self, phrase_reader, tiny_reader):
        with pytest.raises(OptionError, match="memory: expected one of reader ffffffffffff") as refused:
            phrase_reader.extend(tiny_reader.read(SHORT), "More.")
        assert "\n" not in str(refused.value)
        with pytest.raises(OptionError, match="memory"):
            tiny_reader.extend(phrase_reader.read(SHORT), "More.")
