"""A library answers by name, reads on, and says what it does not have."""

import threading

import pytest

from attar import Library as PublicLibrary
from attar.errors import AttarError, FormatError, OptionError, StoreError, UnknownDocumentError
from attar.library import Library
from attar.library.unknown import near_names

QUESTIONS = ["Who left?", "___ is the new owner .", "Where did it happen?"]


def test_it_is_attars_own_name():
    assert PublicLibrary is Library


def test_asking_is_the_readers_answering(library, reader, texts):
    library.add("emma", texts[0])
    memory = reader.read(texts[0])
    answers, wanted = library.ask("emma", QUESTIONS[1], top=3), reader.answer(memory, QUESTIONS[1], top=3)
    assert [answer.text for answer in answers] == [answer.text for answer in wanted]
    assert [a.probability for a in answers] == pytest.approx([a.probability for a in wanted], rel=1e-4)


def test_many_questions_of_one_document(library, texts):
    library.add("emma", texts[0])
    answers = library.ask_many("emma", QUESTIONS)
    assert [best[0].text for best in answers] == [library.ask("emma", each)[0].text for each in QUESTIONS]


def test_each_question_of_its_own_document(library, texts):
    names = ["a", "b", "a"]
    library.add_many(zip("ab", texts, strict=False))
    answers = library.ask_many(names, QUESTIONS)
    for name, question, best in zip(names, QUESTIONS, answers, strict=True):
        assert [answer.text for answer in best] == [answer.text for answer in library.ask(name, question)]


def test_one_question_of_many_documents(library, texts):
    library.add_many(zip("ab", texts, strict=False))
    assert len(library.ask_many(["a", "b"], "Who left?")) == 2


def test_nothing_asked_is_nothing_answered(library):
    assert library.ask_many([], []) == []


def test_five_answers_unless_asked_for_more(library, texts):
    library.add("emma", texts[0])
    assert len(library.ask("emma", "Who left?")) == 5
    assert len(library.ask("emma", "Who left?", top=None)) > 5


def test_appending_is_reading_on(library, reader, texts, assert_same):
    library.add("emma", texts[0], title="Emma")
    outcome = library.append("emma", texts[1])
    whole = reader.read(f"{texts[0]}\n\n{texts[1]}")
    assert_same(library.show("emma").memory, whole)
    assert outcome[:3] == ("emma", "appended", whole.tokens)
    assert library.show("emma").entry.title == "Emma"


def test_after_an_append_the_first_text_is_another(library, texts):
    library.add("emma", texts[0])
    library.append("emma", texts[1])
    with pytest.raises(OptionError, match="another text"):
        library.add("emma", texts[0])


def test_kept_texts_grow_with_their_documents(folder, reader, texts):
    with Library(folder, reader, keep_text=True) as library:
        library.add("emma", texts[0])
        library.append("emma", texts[1])
        assert library.show("emma").text == f"{texts[0]}\n\n{texts[1]}"
        assert library.add("emma", f"{texts[0]}\n\n{texts[1]}").change == "unchanged"
        assert list(library.store.check()) == []


def test_an_append_that_was_overtaken_reads_on_from_the_others(library, folder, reader, texts, monkeypatch):
    library.add("emma", texts[0])
    extend = reader.extend

    def overtaken(memory, text, **options):
        monkeypatch.undo()
        with Library(folder, reader) as other:
            other.append("emma", texts[1])
        return extend(memory, text, **options)

    monkeypatch.setattr(reader, "extend", overtaken)
    library.append("emma", texts[2])
    assert library.show("emma").entry.tokens == sum(reader.read(text).tokens for text in texts[:3])


def test_appending_nothing_is_refused(library, texts):
    library.add("emma", texts[0])
    with pytest.raises(FormatError, match="blanks only"):
        library.append("emma", "\n")


def test_removed_documents_are_gone(library, texts):
    library.add_many(zip("abc", texts, strict=False))
    library.remove("a", "c", "a")
    assert [facts.name for facts in library.documents()] == ["b"]


def test_all_that_are_named_are_removed_or_none(library, texts):
    library.add("a", texts[0])
    with pytest.raises(UnknownDocumentError, match="'b'"):
        library.remove("a", "b")
    assert "a" in library


def test_documents_come_in_pages(library, texts):
    library.add_many(zip("abcd", texts, strict=False))
    assert [facts.name for facts in library.documents(after="a", limit=2)] == ["b", "c"]


@pytest.mark.parametrize("what", ["ask", "append", "merge", "remove", "show"])
def test_a_name_that_is_not_there_is_said_with_near_ones(library, texts, what):
    library.add("novels/Emma", texts[0])
    library.add("persuasion", texts[1])
    do = {
        "ask": lambda: library.ask("ema", "Who?"),
        "append": lambda: library.append("ema", "Ann left."),
        "merge": lambda: library.merge("both", ["persuasion", "ema"]),
        "remove": lambda: library.remove("ema"),
        "show": lambda: library.show("ema"),
    }
    with pytest.raises(UnknownDocumentError, match=r"'ema'.*no such name; did you mean 'novels/Emma'"):
        do[what]()


def test_names_unlike_any_are_not_guessed(library, texts):
    library.add("persuasion", texts[0])
    assert near_names(library.store, "emma") == []
    assert near_names(library.store, "x" * 100_000) == []


def test_another_reader_is_refused(library, folder, make_reader, texts):
    library.add("emma", texts[0])
    with pytest.raises(OptionError, match="expected its reader"):
        Library(folder, make_reader(seed=6))


def test_a_reader_in_another_folder_is_refused_when_it_is_needed(
    library, folder, make_reader, texts, tmp_path
):
    library.add("emma", texts[0])
    make_reader(seed=6).save(tmp_path / "reader")
    with Library(folder, tmp_path / "reader") as other:
        assert len(other) == 1
        with pytest.raises(OptionError, match=r"expected its reader [0-9a-f]{12}, got .*--reader DIR"):
            other.ask("emma", "Who left?")


def test_a_readers_folder_will_do_for_a_reader(folder, reader, texts, tmp_path):
    reader.save(tmp_path / "reader")
    with Library(folder, str(tmp_path / "reader")) as library:
        library.add("emma", texts[0])
        assert library.store.reader == reader.fingerprint


@pytest.mark.parametrize(("dtype", "kept"), [(None, "float16"), ("int8", "int8")])
def test_a_library_keeps_the_numbers_it_was_made_with(folder, reader, texts, dtype, kept):
    with Library(folder, reader, dtype=dtype) as library:
        library.add("emma", texts[0])
    with Library(folder, reader) as library:
        library.append("emma", texts[1])
        assert library.show("emma").entry.dtype == kept
        assert library.ask("emma", "Who left?")


def test_other_numbers_than_it_was_made_with_are_refused(library, folder, reader):
    with pytest.raises(OptionError, match="dtype 'float32', as it was made"):
        Library(folder, reader, dtype="int8")


def test_what_is_opened_for_reading_is_not_written(library, folder, reader, texts):
    with (
        Library(folder, reader, read_only=True) as other,
        pytest.raises(AttarError, match="a read-only one"),
    ):
        other.add("emma", texts[0])


@pytest.mark.parametrize("options", [{"read_only": True}, {"create": False}])
def test_a_library_is_not_made_unless_it_may_be(folder, options):
    with pytest.raises(StoreError, match="expected a store, got no such folder"):
        Library(folder, **options)
    assert not folder.exists()


def test_a_closed_library_says_so(library):
    library.close()
    with pytest.raises(StoreError, match="a closed one"):
        library.ask("emma", "Who left?")


def test_threads_ask_at_the_same_time(library, texts):
    library.add_many(zip("abcd", texts, strict=False))
    wanted = {name: library.ask(name, "Who left?") for name in "abcd"}
    wrong = []

    def ask():
        wrong.extend(name for name in "abcd" * 5 if library.ask(name, "Who left?") != wanted[name])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
