"""A reader reads a text window by window, extends it, and answers with phrases, their places and quotes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory.phrases import JOINT
from attar.nn.phrases import valid_spans
from attar.options import LONGEST
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText
from attar.results import ABSENT
from benchmarks.tiny_reader import tiny_parts
from tests.reader.texts import ODD, SHORT, check_sound, everyday, story
from tests.text.test_kinds import KINDS

TEXT = "Ann met Bob in Bath.  He wrote a letter to the house of Lee in 1999.\n\nThey ran! It was May."
OTHER = "Zoe left the house. Lee was in Bath."
QUESTIONS = [
    "Who met Bob?",
    "What was in the letter?",
    "",
    "___ ran to the house.",
    "When?",
    "🙂 \ud800 你好",
    "a\x00b",
]


class TestReading:
    @pytest.mark.parametrize(
        "text", [SHORT, story(60), "x y " * 2_500, *ODD.values()], ids=["short", "story", "5,000 words", *ODD]
    )
    def test_a_memory_has_phrases_of_the_text(self, reader, text):
        memory = reader.read(text)
        check_sound(memory, text)
        windows = WindowedText.of(text, reader.tokenizer).windows
        assert memory.tokens == sum(len(window.ids) for window in windows)
        # At most as many as the density says, per window.
        assert len(memory.phrases) <= 0.4 * memory.tokens + len(windows)

    @pytest.mark.slow
    def test_a_memory_has_the_same_bytes_whatever_is_read_with_it_and_by_how_many_threads(self, default):
        texts = [SHORT, story(30), "Ann", story(47), f"{story(9)} {SHORT}", story(9)]

        def read(texts):
            states = []
            memories = default.read_many(texts, on_states=lambda *window: states.append(window))
            return [
                (memory.to_bytes(), [values.tobytes() for number, _, values in states if number == at])
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

    def test_long_texts_are_read_in_groups_under_their_own_numbers(self, reader, monkeypatch):
        monkeypatch.setattr("attar.reader.reader._GROUP", 40)
        texts, numbers = [SHORT, "Ann", "", story(3), "Bob ran."], []
        memories = reader.read_many(texts, on_states=lambda number, *_: numbers.append(number))
        assert memories == [reader.read(text) for text in texts]
        assert sorted(set(numbers)) == [0, 1, 3, 4]

    @pytest.mark.parametrize("read", ["read", "extend"])
    def test_what_is_not_a_text_is_refused(self, reader, read):
        calls = {"read": lambda: reader.read(3), "extend": lambda: reader.extend(reader.read(SHORT), 3)}
        with pytest.raises(DtypeError, match="text: expected a string, got int"):
            calls[read]()


class TestExtending:
    @pytest.mark.parametrize(
        ("first", "second"),
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
    def test_extending_equals_reading_both_texts_at_once(self, reader, first, second):
        extended = reader.extend(reader.read(first), second)
        whole = first + JOINT + second if first else second
        check_sound(extended, whole)
        assert extended.to_bytes() == reader.read(whole).to_bytes()

    @settings(deadline=None, max_examples=15)
    @given(first=st.text(max_size=60), second=st.text(max_size=60))
    def test_extending_equals_reading_both_for_any_characters(self, reader, first, second):
        whole = first + JOINT + second if first else second
        assert reader.extend(reader.read(first), second).to_bytes() == reader.read(whole).to_bytes()

    @pytest.mark.slow
    def test_the_default_reader_extends_to_the_same_bytes(self, default):
        # Windows of 60 to 318 pieces: in batches they would be padded, and rounded, according to the others.
        parts = [everyday(2_500), everyday(1_000, 2_500), everyday(4_000, 3_500)]
        memory = default.read(parts[0])
        for at, part in enumerate(parts[1:], 2):
            memory = default.extend(memory, part)
            assert memory.to_bytes() == default.read(JOINT.join(parts[:at])).to_bytes()

    def test_a_subtracted_text_does_not_come_back(self, reader):
        part = reader.read("Zoe was here.")
        extended = reader.extend(reader.read(SHORT) + part - part, "Lee ran.")
        phrases = extended.phrases.texts_of(np.arange(len(extended.phrases)))
        assert not any("Zoe" in phrase or "here" in phrase for phrase in phrases)
        assert any("ran" in phrase for phrase in phrases)
        assert extended.tokens == reader.read(SHORT + JOINT + "Lee ran.").tokens

    def test_a_memory_of_another_reader_is_refused(self, reader):
        other = Reader(tiny_parts(seed=1))
        with pytest.raises(OptionError, match=f"one of reader {other.fingerprint[:12]}, not of"):
            reader.extend(other.read(SHORT), "More.")


def places(answers):
    return [(answer.text, answer.start, answer.end) for answer in answers]


def check_alike(one, other) -> None:
    """The same answers, whatever the order of those that are equally likely."""
    probabilities = {place: answer.probability for place, answer in zip(places(other), other, strict=True)}
    assert set(places(one)) == set(probabilities)
    for place, answer in zip(places(one), one, strict=True):
        assert answer.probability == pytest.approx(probabilities[place], abs=1e-4)


class TestAnswers:
    @pytest.mark.parametrize("question", QUESTIONS)
    def test_an_answer_is_the_text_at_its_place_and_its_quote_is_the_sentence(self, reader, question):
        answers = reader.answer(reader.read(TEXT), question, text=TEXT)
        phrases = [answer for answer in answers if not answer.absent]
        assert phrases
        for answer in phrases:
            assert TEXT[answer.start : answer.end] == answer.text
            assert answer.text in answer.quote
            assert answer.quote in TEXT
            assert answer.kind in KINDS

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_probabilities_are_ordered_and_sum_to_one_with_not_in_this_text(self, reader, question):
        answers = reader.answer(reader.read(TEXT), question)
        (absent,) = (answer for answer in answers if answer.absent)
        assert (absent.text, absent.kind, absent.quote, absent.start) == ("", ABSENT, None, None)
        probabilities = [answer.probability for answer in answers]
        assert probabilities == sorted(probabilities, reverse=True)
        assert min(probabilities) >= 0
        assert sum(probabilities) == pytest.approx(1, abs=1e-6)

    @pytest.mark.parametrize("top", [1, 2, 50])
    def test_at_most_top_answers_are_given(self, reader, top):
        memory = reader.read(TEXT)
        answers, whole = (reader.answer(memory, "Who met Bob?", top=most) for most in (top, None))
        assert places(answers) == places(whole)[:top]

    @pytest.mark.parametrize("text", ["", " \n", "\x00"], ids=["empty", "blank", "control character"])
    def test_a_text_without_phrases_has_no_answer(self, reader, text):
        (answer,) = reader.answer(reader.read(text), "Who?", text=text)
        assert (answer.absent, answer.probability) == (True, 1)

    def test_a_question_of_5_000_words_is_cut(self, reader):
        memory = reader.read(TEXT)
        long, longer = ("who met bob " * count for count in (1_600, 1_700))
        assert places(reader.answer(memory, long)) == places(reader.answer(memory, longer))

    def test_batches_give_the_answers_of_single_questions(self, reader):
        memories = [reader.read(text) for text in (TEXT, OTHER)] * 40
        questions = [f"{question} {at}" for at in range(12) for question in QUESTIONS][: len(memories)]
        together = reader.answer_many(memories, questions, texts=[TEXT, OTHER] * 40)
        assert len(together) == 80
        for at in range(0, 80, 11):
            check_alike(together[at], reader.answer(memories[at], questions[at]))

    @pytest.mark.parametrize(
        ("questions", "options", "error"),
        [
            ([3], {}, DtypeError),
            (["Who?"], {"top": 0}, OptionError),
            (["Who?", "What?"], {}, ShapeError),
            (["Who?"], {"texts": [TEXT, TEXT]}, ShapeError),
        ],
        ids=["no string", "top", "two questions", "two texts"],
    )
    def test_wrong_arguments_are_refused_in_one_line(self, reader, questions, options, error):
        with pytest.raises(error) as refused:
            reader.answer_many([reader.read(TEXT)], questions, **options)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("quick", [True, False], ids=["quick questions", "text encoder"])
    def test_scores_are_those_of_the_network(self, parts, quick):
        """All in one window; special tokens belong to no sentence of a memory."""
        reader, network, tokenizer = Reader(parts), parts.network(), parts.tokenizer
        reader.quick = quick
        (window,) = WindowedText.of(TEXT, tokenizer).windows
        ids = torch.tensor([[tokenizer.cls, *window.ids.tolist(), tokenizer.sep]])
        inside = torch.ones_like(ids, dtype=torch.bool)
        inside[:, [0, -1]] = False
        sentences = torch.tensor([[0, *window.sentences.tolist(), 0]])
        memory = reader.read(TEXT)
        index = memory.phrases
        for question in ("who met bob in bath?", "what was it", ""):
            asked = torch.from_numpy(tokenizer.read_questions([question])[0].astype(np.int64))[None]
            with torch.inference_mode():
                texts = network.encode_texts(ids, torch.ones_like(inside))
                texts = texts._replace(words=texts.words * inside[..., None])
                everything = torch.ones_like(asked, dtype=torch.bool)
                questions = network.encode_questions(asked, everything, parts.quick() if quick else None)
                expected = network.score(texts, questions, sentences, valid_spans(sentences, inside))[0]
            (query,) = reader.questions.encode([question])
            query = replace(
                query, exact=[np.zeros(0, np.int64)] * len(query.exact)
            )  # not a part of the network
            neighbours = parts.weight("network.neighbours")
            overlap = query.overlap(index).with_neighbours(neighbours)[index.sentences]
            products = memory.dequantized @ query.vector * parts.options.size**-0.5
            compared = 0
            for start, length, prior, product, shared in zip(
                index.starts, index.lengths, index.priors, products, overlap, strict=True
            ):
                first = int(np.flatnonzero(window.places[:, 0] == start)[0])
                last = int(np.flatnonzero(window.places[:, 1] == start + length)[0])
                assert last - first < LONGEST
                score = float(expected[first + 1, last - first])
                assert score == pytest.approx(product + prior + shared, abs=0.1)  # int8
                compared += 1
            assert compared == len(index)
            assert query.null == pytest.approx(float(questions.nulls[0]), abs=0.05)


class TestMerging:
    def test_a_merged_memory_of_long_texts_equals_reading_both(self, reader):
        # Each text fills its windows, so that reading both at once has the same windows.
        first = ("the letter of Ann was in Bath . " * 16).strip()
        second = "Bob ran to the house of Lee. " * 16
        whole, merged = reader.read(first + JOINT + second), reader.read(first) + reader.read(second)
        assert len(WindowedText.of(first + JOINT + second, reader.tokenizer).windows) == 2
        for question in QUESTIONS:
            check_alike(reader.answer(whole, question), reader.answer(merged, question))

    @pytest.mark.parametrize("part", [0, 1], ids=["first", "second"])
    def test_subtracting_leaves_the_answers_of_the_rest(self, reader, part):
        memories = [reader.read(TEXT), reader.read(OTHER)]
        rest, moved = sum(memories) - memories[part], 0 if part else len(TEXT + JOINT)
        for question in QUESTIONS:
            found, expected = reader.answer(rest, question), reader.answer(memories[1 - part], question)
            assert {(answer.text, answer.start) for answer in found} == {
                (answer.text, None if answer.absent else answer.start + moved) for answer in expected
            }
            assert [answer.probability for answer in found] == pytest.approx(
                [answer.probability for answer in expected], abs=1e-4
            )
