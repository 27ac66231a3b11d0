"""Questions to memories of phrases: scores, answers with their places and quotes, and "not in this text"."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory.phrases import JOINT, PhraseIndex
from attar.nn.phrases import valid_spans
from attar.options import LONGEST
from attar.reader.phrase_scores import rank
from attar.reader.phrase_texts import cut_windows
from attar.reader.phrases import PhraseReader
from attar.results import ABSENT
from tests.reader.test_confidence import asked
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


def key(answers):
    return [(answer.text, answer.start, answer.end, answer.kind) for answer in answers]


def check_alike(one, other) -> None:
    """The same answers, whatever the order of those that are equally likely."""
    probabilities = {each[:3]: answer.probability for each, answer in zip(key(other), other, strict=True)}
    assert {each[:3] for each in key(one)} == set(probabilities)
    for each, answer in zip(key(one), one, strict=True):
        assert answer.probability == pytest.approx(probabilities[each[:3]], abs=1e-4)


class TestAnswers:
    @pytest.mark.parametrize("question", QUESTIONS)
    def test_an_answer_is_the_text_at_its_place_and_its_quote_is_the_sentence(self, phrase_reader, question):
        answers = phrase_reader.answer(phrase_reader.read(TEXT), question, text=TEXT)
        phrases = [answer for answer in answers if not answer.absent]
        assert phrases
        for answer in phrases:
            assert TEXT[answer.start : answer.end] == answer.text
            assert answer.text in answer.quote
            assert answer.quote in TEXT
            assert answer.kind in KINDS

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_probabilities_are_ordered_and_sum_to_one_with_not_in_this_text(self, phrase_reader, question):
        answers = phrase_reader.answer(phrase_reader.read(TEXT), question)
        (absent,) = (answer for answer in answers if answer.absent)
        assert (absent.text, absent.kind, absent.quote, absent.start) == ("", ABSENT, None, None)
        probabilities = [answer.probability for answer in answers]
        assert probabilities == sorted(probabilities, reverse=True)
        assert min(probabilities) >= 0
        assert sum(probabilities) == pytest.approx(1, abs=1e-6)

    def test_answers_do_not_overlap(self, phrase_reader):
        memory = phrase_reader.read(TEXT)
        answers = [a for a in phrase_reader.answer(memory, "Who met Bob?") if not a.absent]
        places = sorted((answer.start, answer.end) for answer in answers)
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
        assert len(answers) < len(memory.phrases)

    def test_without_the_text_there_is_no_quote(self, phrase_reader):
        answers = phrase_reader.answer(phrase_reader.read(TEXT), "Who met Bob?")
        assert {answer.quote for answer in answers} == {None}

    @pytest.mark.parametrize("top", [1, 2, 50])
    def test_at_most_top_answers_are_given(self, phrase_reader, top):
        memory = phrase_reader.read(TEXT)
        answers = phrase_reader.answer(memory, "Who met Bob?", top=top)
        whole = phrase_reader.answer(memory, "Who met Bob?")
        assert len(answers) == min(top, len(whole))
        assert answers[0].text in (answer.text for answer in whole)

    @pytest.mark.parametrize("text", ["", " \n", "\x00"], ids=["empty", "blank", "control character"])
    def test_a_text_without_phrases_has_no_answer(self, phrase_reader, text):
        (answer,) = phrase_reader.answer(phrase_reader.read(text), "Who?", text=text)
        assert answer.absent
        assert answer.probability == 1

    def test_a_question_of_5_000_words_is_cut(self, phrase_reader):
        memory = phrase_reader.read(TEXT)
        long, longer = ("who met bob " * count for count in (1_600, 1_700))
        assert key(phrase_reader.answer(memory, long)) == key(phrase_reader.answer(memory, longer))

    def test_a_blank_is_read_as_what(self, phrase_reader):
        memory = phrase_reader.read(TEXT)
        blank, what = phrase_reader.answer_many(memory, ["He wrote ___ .", "He wrote what ."])
        assert key(blank) == key(what)

    def test_batches_give_the_answers_of_single_questions(self, phrase_reader):
        memories = [phrase_reader.read(text) for text in (TEXT, OTHER)] * 40
        questions = [f"{question} {at}" for at in range(12) for question in QUESTIONS][: len(memories)]
        texts = [TEXT, OTHER] * 40
        together = phrase_reader.answer_many(memories, questions, texts=texts)
        assert len(together) == 80
        for at in range(0, 80, 11):
            check_alike(together[at], phrase_reader.answer(memories[at], questions[at], text=texts[at]))

    def test_one_memory_or_one_question_is_used_for_all(self, phrase_reader):
        a, b = phrase_reader.read(TEXT), phrase_reader.read(OTHER)
        assert len(phrase_reader.answer_many(a, QUESTIONS)) == len(QUESTIONS)
        assert len(phrase_reader.answer_many([a, b], "Who?")) == 2

    def test_wrong_arguments_are_refused_in_one_line(self, phrase_reader, tiny_reader):
        memory = phrase_reader.read(TEXT)
        wrong = [
            (lambda: phrase_reader.answer(memory, 3), DtypeError),
            (lambda: phrase_reader.answer(memory, "Who?", top=0), OptionError),
            (lambda: phrase_reader.answer_many([memory], ["Who?", "What?"]), ShapeError),
            (lambda: phrase_reader.answer_many([memory], ["Who?"], texts=[TEXT, TEXT]), ShapeError),
            (lambda: phrase_reader.answer(tiny_reader.read(TEXT), "Who?"), OptionError),
            (lambda: tiny_reader.answer(memory, "Who?"), OptionError),
        ]
        for call, error in wrong:
            with pytest.raises(error) as refused:
                call()
            assert "\n" not in str(refused.value)

    def test_an_explanation_has_a_weight_for_each_word(self, phrase_reader):
        explanation = phrase_reader.explain(TEXT, "Who met Bob?")
        assert explanation.tokens == TEXT.split()
        assert len(explanation.weights) == len(explanation.tokens)
        assert key(explanation.answers) == key(phrase_reader.answer(phrase_reader.read(TEXT), "Who met Bob?"))


class TestAlgebra:
    def test_the_answers_of_a_merged_memory_are_those_of_both_texts_read_apart(self, phrase_reader):
        a, b = phrase_reader.read(TEXT), phrase_reader.read(OTHER)
        both = TEXT + JOINT + OTHER
        for question in QUESTIONS:
            for answer in phrase_reader.answer(a + b, question, text=both):
                if not answer.absent:
                    assert both[answer.start : answer.end] == answer.text
                    assert answer.text in answer.quote

    def test_a_merged_memory_of_long_texts_equals_reading_both(self, phrase_reader):
        # Each text fills its windows, so that reading both at once has the same windows.
        a, b = (
            ("the letter of Ann was in Bath . " * 16 + "\n\n").strip(),
            "Bob ran to the house of Lee. " * 16,
        )
        read, merged = phrase_reader.read(a + JOINT + b), phrase_reader.read(a) + phrase_reader.read(b)
        assert len(cut_windows(phrase_reader.tokenizer, a + JOINT + b)) == 2
        for question in QUESTIONS:
            check_alike(phrase_reader.answer(read, question), phrase_reader.answer(merged, question))

    @pytest.mark.parametrize("part", [0, 1], ids=["first", "second"])
    def test_subtracting_leaves_the_answers_of_the_rest(self, phrase_reader, part):
        texts, memories = [TEXT, OTHER], [phrase_reader.read(TEXT), phrase_reader.read(OTHER)]
        rest, moved = sum(memories) - memories[part], 0 if part else len(TEXT + JOINT)
        for question in QUESTIONS:
            found = phrase_reader.answer(rest, question)
            expected = phrase_reader.answer(memories[1 - part], question, text=texts[1 - part])
            assert {(a.text, a.start) for a in found} == {
                (a.text, None if a.absent else a.start + moved) for a in expected
            }
            assert [a.probability for a in found] == pytest.approx(
                [a.probability for a in expected], abs=1e-4
            )


class TestScores:
    @pytest.mark.parametrize("quick", [True, False], ids=["quick questions", "document encoder"])
    def test_the_scores_of_a_memory_are_those_of_the_network(self, saved_phrases, quick):
        """All in one window; special tokens belong to no sentence of a memory."""
        reader = PhraseReader(saved_phrases, quick=quick)
        network, tokenizer = reader.network, reader.tokenizer
        (window,) = cut_windows(reader.tokenizer, TEXT)
        numbers = [0, *window.sentences.tolist(), 0]
        ids = torch.tensor([[tokenizer.cls, *window.ids.tolist(), tokenizer.sep]])
        inside = torch.ones_like(ids, dtype=torch.bool)
        inside[:, [0, -1]] = False
        sentences = torch.tensor([numbers])
        memory = reader.read(TEXT)
        index = memory.phrases
        (found,) = reader._encode([window])
        for question in ("who met bob in bath?", "what was it", ""):
            asked = torch.from_numpy(tokenizer.read_questions([question])[0].astype(np.int64))[None]
            with torch.inference_mode():
                texts = network.encode_texts(ids, torch.ones_like(inside))
                texts = texts._replace(words=texts.words * inside[..., None])
                encoded = network.encode_questions(
                    asked, torch.ones_like(asked, dtype=torch.bool), reader.quick
                )
                expected = network.score(texts, encoded, sentences, valid_spans(sentences, inside))[0]
            (query,) = reader._encoder.encode([question])
            overlap = query.overlap(index, network.neighbours.detach().numpy())[index.sentences]
            priors = np.array([phrase[3] for phrase in found[0]])
            scores = found[1] @ query.vector * network.options.size**-0.5 + priors + overlap
            places = {(p[0], p[1]): s for p, s in zip(found[0], scores, strict=True)}
            compared = 0
            for first in range(len(window.ids)):
                for length in range(LONGEST):
                    last = first + length
                    if last < len(window.ids):
                        place = int(window.places[first, 0]), int(window.places[last, 1])
                        if place in places:
                            assert float(expected[first + 1, length]) == pytest.approx(
                                places[place], abs=1e-3
                            )
                            compared += 1
            assert compared == len(index) == len(places)
            assert query.null == pytest.approx(float(encoded.nulls[0]), abs=1e-4)

    def test_overlapping_phrases_are_joined_to_the_likeliest(self):
        text = "Ann Lee met Bob."
        phrases = [(0, 3, 0, 0.0), (0, 7, 0, 0.0), (4, 7, 0, 0.0), (12, 15, 0, 0.0)]
        index = PhraseIndex.of(text, phrases, [(0, 16)], [[1]])
        odds = np.array([1.0, 4.0, 2.0, 2.0], np.float32)
        answers = rank(np.log(odds), asked(0.0), index, None, text)
        assert [(each.text, round(each.probability, 6)) for each in answers] == [
            ("Ann Lee", 0.7),
            ("Bob", 0.2),
            ("", 0.1),
        ]
        assert rank(np.log(odds), asked(0.0), index, 1, text) == answers[:1]

    def test_not_in_this_text_comes_first_if_it_is_likeliest(self):
        index = PhraseIndex.of("Ann left.", [(0, 3, 0, 0.0)], [(0, 9)], [[1]])
        (absent, ann) = rank(np.zeros(1, np.float32), asked(np.log(3.0)), index, None, None)
        assert absent.absent
        assert absent.probability == pytest.approx(0.75)
        assert (ann.text, ann.probability, ann.quote) == ("Ann", pytest.approx(0.25), None)
