"""Documents found by what people type; similar names for what is not found."""

import pytest

from attar.errors import OptionError, UnknownDocumentError
from attar.library.documents import find_document


@pytest.fixture
def store(library, texts):
    names = ["novels/Emma", "novels/emma 2", "letters/june", "letters/july", "Notes", "notes", "ÄRGER"]
    library.add_many([(name, texts[0]) for name in names])
    return library.store


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("novels/Emma", "novels/Emma"),
        ("NOVELS/EMMA", "novels/Emma"),
        ("emma", "novels/Emma"),
        ("emma ", "novels/emma 2"),
        ("letters/jun", "letters/june"),
        ("jul", "letters/july"),
        ("notes", "notes"),
        ("Notes", "Notes"),
        ("är", "ÄRGER"),
    ],
)
def test_a_name_its_beginning_or_a_file_without_its_folder_finds_a_document(store, given, found):
    assert find_document(store, given) == found


@pytest.mark.parametrize("given", ["letters/", "ju", "NOTES", "novels"])
def test_what_fits_several_documents_is_refused_with_their_names(store, given):
    with pytest.raises(OptionError, match=r"the beginning of 2 names: '.*', '.*'; type more of its name"):
        find_document(store, given)


@pytest.mark.parametrize("what", ["ask", "append", "merge", "remove", "show", "memory"])
def test_the_error_for_an_unknown_name_suggests_similar_ones(library, texts, what):
    library.add("novels/Emma", texts[0])
    library.add("persuasion", texts[1])
    do = {
        "ask": lambda: library.ask("ema", "Who?"),
        "append": lambda: library.append("ema", "Ann left."),
        "merge": lambda: library.merge("both", ["persuasion", "ema"]),
        "remove": lambda: library.remove("ema"),
        "show": lambda: library.show("ema"),
        "memory": lambda: library.memory("ema"),
    }
    with pytest.raises(UnknownDocumentError, match=r"no document 'ema'; did you mean 'novels/Emma'"):
        do[what]()
