"""A bank answers as its library does, and follows it."""

from collections import Counter

import pytest
import torch

from attar.errors import DeviceError, OptionError, UnknownDocumentError
from attar.library.bank import BankShard, DocumentBank
from attar.library.finding import letter_words
from attar.library.library import Library
from attar.reader.fast_bank import padded
from attar.reader.questions import QuestionEncoder
from attar.reader.reader import Reader
from attar.results import Subset, paired
from attar.server.batching import AskJob, answer_together
from benchmarks.stories import tell_stories
from benchmarks.tiny_reader import tiny_parts
from tests.library.conftest import damage
from tests.reader.test_second_look import parts_with_look
from tests.reader.texts import ODD, SHORT, everyday, story

UNSTORED = ("lone surrogates", "spaces", "empty")
QUESTIONS = [
    "Who met Bob in Bath?",
    "Hi, when was it?",
    "Did Ann meet Bob?",
    "",
    "What was in the house of Lee? " * 20,
    "Bob",
]


def same(ours, theirs, tolerance=1e-4):
    """The same answers, or ones that are as likely but for rounding."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=tolerance)
        if one.text != other.text:  # two phrases that are as likely
            assert any(abs(one.probability - answer.probability) < tolerance for answer in theirs)


@pytest.fixture
def in_float(monkeypatch):
    """Questions are encoded by the network, as a bank does it, and not in int8."""

    def encode_pieces(self, pieces):
        parts = self._parts
        with torch.inference_mode():
            given = map(torch.from_numpy, padded(pieces))
            encoded = parts.network().encode_questions(*given, parts.quick())
        return tuple(part.numpy() for part in encoded[:3])

    def states(self, ids, layers):
        tokenizer = self._parts.tokenizer
        with torch.inference_mode():
            given = torch.tensor([[tokenizer.cls, *ids, tokenizer.sep]])
            states = self._parts.network().encoder(given, torch.ones_like(given).bool(), layers=layers)
        return states[0, 1:-1].numpy()

    monkeypatch.setattr(QuestionEncoder, "encode_pieces", encode_pieces)
    monkeypatch.setattr(QuestionEncoder, "states", states)


def ask_many(bank, names, questions, **options):
    about, asked = paired(names, questions)
    return [result.answers for result in bank.ask_each(about, asked, **options)]


@pytest.fixture
def filled(library, texts, in_float) -> Library:
    documents = {**ODD, "short": SHORT, **{f"story {at}": text for at, text in enumerate(texts)}}
    library.add_many((name, text) for name, text in documents.items() if name not in UNSTORED)
    return library


def test_answers_are_those_of_the_library(filled):
    bank = DocumentBank(filled, "cpu")
    assert len(bank) == len(filled)
    names = [document.name for document in filled.documents()]
    about = [name for name in names for _ in QUESTIONS[:3]]
    asked = QUESTIONS[:3] * len(names)
    for ours, theirs in zip(ask_many(bank, about, asked), filled.ask_many(about, asked), strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question])
@pytest.mark.parametrize("top", [1, None])
def test_answers_to_odd_questions_are_those_of_the_library(filled, question, top):
    bank = DocumentBank(filled, "cpu")
    same(ask_many(bank, "story 0", question, top=top)[0], filled.ask("story 0", question, top=top))


def test_long_and_short_documents_are_looked_up_in_groups(library, in_float, monkeypatch):
    documents = {"long": story(300), "short": SHORT, "word": "Ann", "middle": story(20)}
    library.add_many(documents.items())
    expected = library.ask_many([*documents], "Who met Bob?")
    monkeypatch.setattr("attar.reader.fast_bank._NUMBERS", 10_000)
    for ours, theirs in zip(
        ask_many(DocumentBank(library, "cpu"), [*documents], "Who met Bob?"), expected, strict=True
    ):
        same(ours, theirs)


def test_a_second_look_is_that_of_the_library_but_for_rounding(folder, texts, in_float):
    with Library(folder, Reader(parts_with_look())) as library:
        library.add_many((f"{at}", text) for at, text in enumerate(texts))
        bank, names = DocumentBank(library, "cpu"), [f"{at}" for at in range(len(texts))]
        for look in (0, 1, 3):
            ours = ask_many(bank, names, "Who left the town?", look=look)
            theirs = library.ask_many(names, "Who left the town?", look=look)
            for one, other in zip(ours, theirs, strict=True):
                same(one, other, 0.05 if look else 1e-4)  # the library's second look is in int8


class TestAskingAll:
    """The device ranks all documents, and the best of them answer."""

    ASKED = (
        "Who met Bob in Bath?",
        "Hi, who founded Kordex Mils?",
        "Did Ann leave?",
        "1610",
        "¿Quién?",
        "zzz",
    )

    def alike(self, bank, library, **options):
        expected = [library.ask_all(question, **options) for question in self.ASKED]
        for ours, theirs in zip(bank.ask_all_many(self.ASKED, **options), expected, strict=True):
            same(ours, theirs, 1e-3)
            assert {answer.document for answer in ours} == {answer.document for answer in theirs}
            assert [answer.also for answer in ours] == [answer.also for answer in theirs]

    @pytest.fixture
    def stories(self, library, in_float) -> Library:
        told = [*tell_stories(5, 40)]
        library.add_many((f"{at}", story.text) for at, story in enumerate(told))
        library.add("copy", told[3].text)
        library.add("long", story(300))
        return library

    @pytest.mark.parametrize("top", [1, 5, None])
    def test_answers_are_those_of_the_library(self, stories, top):
        self.alike(DocumentBank(stories, "cpu"), stories, top=top)

    def test_some_documents(self, stories):
        within = Subset(names=("1", "2", "copy"))
        self.alike(DocumentBank(stories, "cpu"), stories, within=within)
        with pytest.raises(UnknownDocumentError):
            DocumentBank(stories, "cpu").ask_all_many(["Who?"], within=Subset(names=("none",)))

    def test_follows_what_is_added_replaced_and_removed(self, stories, monkeypatch):
        bank = DocumentBank(stories, "cpu")
        self.alike(bank, stories)
        stories.add("new", "Bob met Zelda Quist in Bath. Ann left for 1,610 pounds.")
        self.alike(bank, stories)
        monkeypatch.setattr("attar.search.lexical._UNSORTED", 2)
        stories.add("new", "Bob met Zelda Quest in Bath in 1610.", replace=True)
        stories.add_many((f"more {at}", f"Ann {at} met Bob in Kordex Mills.") for at in range(5))
        self.alike(bank, stories)
        stories.remove("new", "3", "more 0")
        self.alike(bank, stories)
        assert bank.words() == sum(
            (Counter(letter_words(stories.show(d.name).text)) for d in stories.documents()), Counter()
        )

    def test_other_spellings(self, stories):
        stories.add("new", "Priya Raman paid 1,610 pounds to the bank.")
        bank = DocumentBank(stories, "cpu")
        with stories.opened() as shard:
            asked = ["ramen", "1610", "ganse", "spendt", "wekend", "chappel"]
            ours, theirs = (each.neighbours(asked) for each in (BankShard(shard, bank), shard))
        assert ours == theirs
        assert ours["1610"] == ["1,610"]
        assert ours["chappel"] == ["chapel"]

    def test_texts_that_are_not_kept(self, folder, reader, in_float):
        with Library(folder, reader, keep_text=False) as library:
            library.add_many((f"{at}", story.text) for at, story in enumerate(tell_stories(5, 9)))
            self.alike(DocumentBank(library, "cpu"), library)

    def test_a_damaged_document_gives_its_place_to_the_next(self, folder, reader, in_float):
        with Library(folder, reader) as library:
            library.add_many((f"{at}", story.text) for at, story in enumerate(tell_stories(5, 9)))
        damage(folder, b"m1")
        with Library(folder, reader) as library:
            self.alike(DocumentBank(library, "cpu"), library)

    def test_an_empty_library(self, library):
        assert DocumentBank(library, "cpu").ask_all_many(["Who?"]) == library.ask_all_many(["Who?"])

    def test_a_server_asks_one_document_and_all_in_one_batch(self, stories):
        stories.open_bank("cpu")
        jobs = [
            AskJob(["1"], ["Who met Bob?"], 2, None, [1]),
            AskJob(["", ""], ["Who met Bob?", "Who left?"], 1, None, [1, 1], to_all=True),
        ]
        (one,), of_all = answer_together(stories, jobs)
        same(one.answers, stories.ask("1", "Who met Bob?", top=2))
        expected = stories.ask_all_many(["Who met Bob?", "Who left?"], top=1)
        assert [asked.answers for asked in of_all] == expected

    def test_a_library_goes_on_without_room_for_search(self, stories):
        expected = stories.ask_all("Who met Bob?")
        stories.open_bank("cpu")
        bank = stories._bank
        bank._most = bank.nbytes + 1
        with pytest.warns(UserWarning, match=r"by the CPU: the 42 documents do not fit .*: about \d+ do"):
            assert stories.ask_all("Who met Bob?") == expected
        assert stories.has_bank

    def test_a_library_goes_on_without_a_device_that_is_lost(self, stories, monkeypatch):
        def lost(*given):
            raise RuntimeError("CUDA error: device lost")

        expected = stories.ask_all("Who met Bob?")
        stories.open_bank("cpu")
        monkeypatch.setattr("attar.search.fast_index.DeviceIndex.compare", lost)
        with pytest.warns(UserWarning, match="answered by the CPU from now on: CUDA error: device lost"):
            assert stories.ask_all("Who met Bob?") == expected
        assert not stories.has_bank


class TestProcesses:
    """Many questions that are asked together are answered by other processes."""

    @pytest.fixture
    def folder_of_reader(self, tmp_path):
        parts_with_look().save(tmp_path / "reader")
        return tmp_path / "reader"

    @pytest.mark.parametrize("look", [0, 2])
    def test_answers_are_those_of_this_process(self, folder, folder_of_reader, texts, look):
        with Library(folder, folder_of_reader) as library:
            library.add_many((f"{at}", text) for at, text in enumerate(texts))
            alone, helped = DocumentBank(library, "cpu"), DocumentBank(library, "cpu", workers=2)
            names = [f"{at % len(texts)}" for at in range(100)]
            questions = [f"Who met {at} in Bath?" for at in range(100)]
            expected = ask_many(alone, names, questions, look=look)
            for ours, theirs in zip(ask_many(helped, names, questions, look=look), expected, strict=True):
                same(ours, theirs)
            # What has changed since they last looked is read by them again.
            library.add("0", SHORT, replace=True)
            ours = ask_many(helped, "0", questions, look=look)
            assert {answer.quote for answers in ours for answer in answers} - {None} <= set(
                SHORT.replace("Bath. ", "Bath.|").split("|")
            )

    def test_a_process_that_ends_is_done_without(self, filled):
        bank = DocumentBank(filled, "cpu", workers=1)
        for worker in bank._pool._workers:
            worker.process.kill()
        questions = [f"Who met {at}?" for at in range(70)]
        ours = ask_many(bank, "short", questions, top=1)
        theirs = filled.ask_many("short", questions, top=1)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)


class TestLibrary:
    def test_goes_on_without_a_device_that_is_full_or_lost(self, filled):
        filled.open_bank("cpu")
        bank = filled._bank
        bank._most = 0
        filled.add("new", SHORT)
        with pytest.warns(UserWarning, match="answered by the CPU from now on: the 1 documents do not fit"):
            answers = filled.ask("new", "Who met Bob?")
        assert answers == filled.ask("new", "Who met Bob?")


class TestFollowing:
    def test_documents_that_are_gone_do_not_take_memory_for_ever(self, filled, monkeypatch):
        monkeypatch.setattr("attar.library.bank._TOGETHER", 4)
        bank = DocumentBank(filled, "cpu")
        for turn in range(40):
            filled.add("short", f"{SHORT} {turn}", replace=True)
            ask_many(bank, "short", "Who?")
        assert bank._written < 3 * len(filled) + 8

    def test_another_reader(self, folder, texts, in_float):
        with Library(folder, Reader(tiny_parts())) as library:
            library.add("a", texts[0])
            bank = DocumentBank(library, "cpu")
            library.reread(Reader(tiny_parts(seed=7)))
            same(ask_many(bank, "a", "Who met Bob?")[0], library.ask("a", "Who met Bob?"))


class TestMistakes:
    def test_are_those_of_their_question_alone(self, filled):
        bank = DocumentBank(filled, "cpu")
        names, questions = ["short", "none", "short"], ["Who?", "Who?", 3]
        ours = bank.ask_each(names, questions)
        theirs = filled.ask_each(names, questions)
        assert [str(result) for result in ours[1:]] == [str(result) for result in theirs[1:]]
        same(ours[0].answers, theirs[0].answers)

    def test_too_little_memory_says_how_many_documents_fit(self, filled, monkeypatch):
        monkeypatch.setattr("attar.library.bank._free_memory", lambda device: 30_000)
        with pytest.raises(
            DeviceError, match=r"the \d+ documents do not fit .*: about \d+ do; ask the library itself"
        ):
            DocumentBank(filled, "cpu")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_no_gpu(self, filled):
        with pytest.raises(DeviceError, match="there is no GPU that PyTorch can use"):
            DocumentBank(filled)

    def test_a_reader_of_fixed_size(self, folder):
        with Library(folder, "fixed") as library, pytest.raises(OptionError, match="a reader of phrases"):
            DocumentBank(library, "cpu")


@pytest.mark.gpu
@pytest.mark.slow
def test_the_shipped_reader_answers_alike(folder, device):
    """A CPU rounds activations to int8, a device to bfloat16: after twelve layers some percent apart."""
    texts = {f"{at}": everyday(1_200, 1_200 * at) for at in range(8)}
    with Library(folder) as library:
        library.add_many(texts.items())
        bank = DocumentBank(library, device)
        for question in ("Who is it about?", "When does it begin?", "How much does it cost?"):
            theirs = library.ask_many([*texts], question)
            for ours, expected in zip(ask_many(bank, [*texts], question), theirs, strict=True):
                same(ours, expected, 0.1)
