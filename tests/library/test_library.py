"""A library answers questions by document name, appends, removes, lists, and caches decoded memories."""

import threading

import pytest

from attar.errors import FormatError, ReaderMismatchError, UnknownDocumentError
from attar.library.library import Library


def test_an_error_takes_the_place_of_its_own_question_only(library, texts):
    library.add("emma", texts[0])
    names, questions = ["emma", "nobody", "emma"], ["Who left?", "Who left?", "?"]
    asked, unknown, blank = library.ask_each(names, questions)
    assert (asked.answers, asked.bytes) == (library.ask("emma", "Who left?"), library.show("emma").bytes)
    assert isinstance(unknown, UnknownDocumentError)
    assert isinstance(blank, FormatError)


def test_ask_gives_five_answers_by_default_and_all_with_none(library, texts):
    library.add("emma", texts[0])
    assert len(library.ask("emma", "Who left?")) == 5
    assert len(library.ask("emma", "Who left?", top=None)) > 5


def test_kept_texts_are_appended_to(folder, reader, texts):
    with Library(folder, reader, keep_text=True) as library:
        library.add("emma", texts[0])
        library.append("emma", texts[1])
        assert library.show("emma").text == f"{texts[0]}\n\n{texts[1]}"
        assert library.add("emma", f"{texts[0]}\n\n{texts[1]}").change == "unchanged"
        assert list(library.store.check()) == []


def test_an_append_continues_from_what_another_process_wrote_meanwhile(
    library, folder, reader, texts, monkeypatch
):
    library.add("emma", texts[0])
    extend = reader.extend

    def overtaken(memory, text, **options):
        monkeypatch.undo()
        with Library(folder, reader) as other:
            other.append("emma", texts[1])
        return extend(memory, text, **options)

    monkeypatch.setattr(reader, "extend", overtaken)
    library.append("emma", texts[2])
    assert library.show("emma").tokens == sum(reader.read(text).tokens for text in texts[:3])


def test_several_documents_are_removed_or_none(library, texts):
    library.add_many(zip("abc", texts, strict=False))
    with pytest.raises(UnknownDocumentError, match="'d'"):
        library.remove("a", "d")
    library.remove("a", "c", "a")
    assert [each.name for each in library.documents()] == ["b"]


def test_a_readers_folder_that_is_not_the_stores_is_refused_when_it_is_loaded(
    library, folder, make_reader, texts, tmp_path
):
    library.add("emma", texts[0])
    make_reader(6).save(tmp_path / "reader")
    with Library(folder, tmp_path / "reader") as other:
        assert len(other) == 1
        with pytest.raises(
            ReaderMismatchError, match=r"made with the reader [0-9a-f]{12}, not with .*--reader DIR"
        ):
            other.ask("emma", "Who left?")


def test_a_library_is_not_created_for_a_reader_that_is_not_there(folder, tmp_path):
    for reader, part in (("fixd", "there is no reader 'fixd'"), (tmp_path, "No such")):
        with pytest.raises(FormatError, match=part):
            Library(folder, reader)
        assert not folder.exists()


def test_threads_can_ask_at_the_same_time(library, texts):
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


@pytest.mark.parametrize("change", ["replace", "append", "remove and add"])
def test_another_processs_change_is_seen_at_once(library, folder, reader, texts, change):
    library.add("emma", texts[0])
    library.ask("emma", "Who left?")
    with Library(folder, reader) as other:
        if change == "replace":
            other.add("emma", texts[1], replace=True)
        elif change == "append":
            other.append("emma", texts[1])
        else:
            other.remove("emma")
            other.add("emma", texts[1])
    fresh = reader.answer(library.memory("emma"), "Who left?", top=5)
    assert [answer.text for answer in library.ask("emma", "Who left?")] == [each.text for each in fresh]
