"""The best sentences are read again with the question: what is read, what it says, and when there is no second look."""

from pathlib import Path

import pytest
import torch

from attar.errors import FormatError, OptionError
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.reader.answers import rank_looked
from attar.reader.folders import LOOK_FEATURES, Calibration
from attar.reader.reader import Reader
from attar.reader.second_look import FoundSentence, FoundSpan, Look
from attar.results import Answer
from benchmarks.tiny_reader import tiny_parts

TEXT = "Ann met Bob in Bath. He wrote a letter to the house of Lee in 1999.\n\nThey ran! It was May."
QUESTION = "Who wrote a letter?"


def parts_with_look():
    parts = tiny_parts()
    torch.manual_seed(1)
    network = SpanNetwork(Transformer(parts.options.encoder))
    network.encoder.load_state_dict(parts.network().encoder.state_dict())
    return parts.with_second_look(network)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "reader"
    parts_with_look().save(path)
    return path


@pytest.fixture(scope="module")
def reader(folder):
    return Reader.load(folder)


def sentence(text, start=0, score=0.0, share=-1.0, phrase=(0, 3)):
    return FoundSentence(start, text, score, share, *phrase)


class TestAnswers:
    @pytest.mark.parametrize("look", [1, 3, 5])
    def test_are_words_of_the_text_with_their_sentence(self, reader, look):
        answers = reader.answer(reader.read(TEXT), QUESTION, text=TEXT, look=look)
        spans = [answer for answer in answers if not answer.absent]
        assert spans
        for answer in spans:
            assert TEXT[answer.start : answer.end] == answer.text
            assert answer.text in answer.quote
            assert answer.quote in TEXT
        assert sum(answer.absent for answer in answers) == 1
        assert sum(answer.probability for answer in answers) <= 1 + 1e-6

    def test_do_not_depend_on_what_else_is_asked(self, reader):
        memory = reader.read(TEXT)
        questions = [QUESTION, "When?", "Where did Ann meet Bob?", QUESTION, "x " * 200]
        together = reader.answer_many([memory] * 5, questions, texts=[TEXT] * 5)
        for question, answers in zip(questions, together, strict=True):
            alone = reader.answer(memory, question, text=TEXT)
            # The memory's own scores are rounded differently in a batch.
            assert [(answer.text, answer.start) for answer in alone] == [
                (answer.text, answer.start) for answer in answers
            ]
            assert alone[0].probability == answers[0].probability

    def test_without_a_text_are_the_memorys(self, reader):
        memory = reader.read(TEXT)
        assert reader.answer(memory, QUESTION) == reader.answer(memory, QUESTION, look=0)

    def test_of_a_text_of_another_length_are_the_memorys(self, reader):
        memory, other = reader.read(TEXT), TEXT + " More."
        found = reader.answer(memory, QUESTION, text=other)
        assert found == reader.answer(memory, QUESTION, text=other, look=0)

    @pytest.mark.parametrize(
        "text",
        ["ann met " * 5_000, "Ann left Bath. " * 500, "zzz " * 400],
        ids=["a sentence of 10,000 words", "500 times the same", "unknown words"],
    )
    def test_of_odd_texts_are_words_of_them(self, reader, text):
        for answer in reader.answer(reader.read(text), QUESTION, text=text, top=5):
            assert answer.absent or text[answer.start : answer.end] == answer.text

    def test_come_without_torch_too(self, reader, monkeypatch):
        memory = reader.read(TEXT)
        expected = reader.answer(memory, QUESTION, text=TEXT)
        monkeypatch.delitem(__import__("sys").modules, "torch")
        assert reader.answer(memory, QUESTION, text=TEXT) == expected


class TestContext:
    def test_is_read_but_does_not_answer(self, reader):
        plain = sentence("Ann left Bath", start=40)
        above = plain._replace(context="CV Ann\nWork")
        (alone,), (look,) = (reader.second_look.read([QUESTION], [[one]]) for one in (plain, above))
        assert look.present != alone.present
        assert all(span.start >= 40 and span.text in plain.text for span in look.spans)

    def test_of_several_sentences_is_read_once(self, reader):
        first, second = (sentence(text, start=at) for text, at in (("Ann left.", 0), ("Bob came.", 10)))
        above = [one._replace(context="Work") for one in (first, second)]
        (both,) = reader.second_look.read([QUESTION], [above])
        (once,) = reader.second_look.read([QUESTION], [[above[0], second]])
        assert both == once._replace(spans=both.spans)

    def test_without_room_is_left_out(self, reader):
        long = sentence("ann met " * 2_000)._replace(context="Work")
        (look,) = reader.second_look.read([QUESTION], [[long]])
        assert look.spans[0].text in long.text


class TestOptions:
    @pytest.mark.parametrize("look", [-1, 6, True, 1.0, "3"])
    def test_a_wrong_number_of_sentences_is_refused(self, reader, look):
        with pytest.raises(OptionError, match="look: expected an integer from 0 to 5"):
            reader.answer(reader.read(TEXT), QUESTION, look=look)

    def test_a_reader_without_a_second_look_says_so(self, tiny_reader):
        memory = tiny_reader.read(TEXT)
        with pytest.raises(OptionError, match="the reader has no second look; omit look, or use look=0"):
            tiny_reader.answer(memory, QUESTION, text=TEXT, look=1)
        assert tiny_reader.answer(memory, QUESTION, text=TEXT)


class TestFiles:
    def test_is_saved_with_its_reader(self, reader, tmp_path):
        reader.save(tmp_path / "copy")
        copy, memory = Reader.load(tmp_path / "copy"), reader.read(TEXT)
        assert copy.answer(memory, QUESTION, text=TEXT) == reader.answer(memory, QUESTION, text=TEXT)

    def test_a_missing_or_another_file_is_named_with_the_first_question(self, folder, tmp_path):
        for name in ("config.json", "tokenizer.json", "weights.safetensors"):
            (tmp_path / name).write_bytes((Path(folder) / name).read_bytes())
        memory = Reader.load(tmp_path).read(TEXT)
        with pytest.raises(FormatError, match=r"cannot read .*second_look\.safetensors"):
            Reader.load(tmp_path).answer(memory, QUESTION, text=TEXT)
        (tmp_path / "second_look.safetensors").write_bytes(b"0" * 64)
        with pytest.raises(FormatError, match="is not the file of this reader"):
            Reader.load(tmp_path).answer(memory, QUESTION, text=TEXT)
        assert Reader.load(tmp_path).answer(memory, QUESTION, text=TEXT, look=0)


class TestRanking:
    FIRST = FoundSpan(sentence("Ann left."), 0, 3, -0.1)
    SECOND = FoundSpan(sentence("Bob left.", 10, share=-2.0, phrase=(10, 13)), 10, 13, -3.0)

    def calibration(self, right=2.0, absent=-2.0, threshold=0.5):
        rest = (0.0,) * (len(LOOK_FEATURES) - 1)
        return Calibration((right, *rest), (absent, *rest), threshold)

    def test_the_best_span_of_each_sentence_is_an_answer(self):
        look = Look([self.FIRST, self.SECOND], 3.0)
        answers = rank_looked("Who left?", look, [], self.calibration(), None)
        assert [answer.text for answer in answers if not answer.absent] == ["Ann", "Bob"]
        assert answers[0].quote == "Ann left."

    def test_phrases_that_overlap_a_span_are_the_same_answer(self):
        phrases = [Answer("Ann left", 0.6, "phrase", None, 0, 8), Answer("May", 0.2, "date", None, 30, 33)]
        answers = rank_looked("Who left?", Look([self.FIRST], 3.0), phrases, self.calibration(), None)
        assert [answer.text for answer in answers if not answer.absent] == ["Ann", "May"]
        assert answers[0].probability > answers[-1].probability
