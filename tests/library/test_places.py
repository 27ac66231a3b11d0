"""An answer says where it stands: page, heading or row, also after append and merge."""

import pytest

from attar.documents.extracted import SourceDocument
from attar.documents.sources import find_files
from attar.library.drafts import Draft, read_files
from attar.library.library import Library
from attar.store.records import unpack_parts
from tests.documents.document_files import pdf_of

pytestmark = pytest.mark.slow

PAGES = ["Ann Lee lives in Bath.", "Bob Ray paid 900 pounds to the landlord.", "Eve Moss owns a red boat."]


@pytest.fixture
def filled(folder, shipped, tmp_path):
    (tmp_path / "rent.pdf").write_bytes(pdf_of(PAGES))
    (tmp_path / "more.pdf").write_bytes(pdf_of(["Dan Fox sails to Dover.", "Kim Hale bakes bread."]))
    with Library(folder, shipped) as library:
        library.add_many(read_files(find_files([tmp_path / "rent.pdf", tmp_path / "more.pdf"]).files))
        yield library


def place(library, name, question, expected):
    """The place of the first answer that holds some text."""
    answers = library.ask(name, question, top=None)
    best = next(answer for answer in answers if expected in answer.text)
    assert library.store.get(name).text[best.start : best.end] == best.text
    return best.place


@pytest.mark.parametrize(
    ("question", "expected", "page"),
    [
        ("Where does Ann Lee live?", "Bath", "page 1"),
        ("How much did Bob Ray pay?", "900", "page 2"),
        ("Who owns a boat?", "Eve Moss", "page 3"),
    ],
)
def test_an_answer_names_its_page(filled, question, expected, page):
    assert place(filled, "rent.pdf", question, expected) == page


def test_an_answer_from_all_documents_names_its_document_and_page(filled):
    answers = filled.ask_all("How much did Bob Ray pay?", top=None)
    best = next(answer for answer in answers if "900" in answer.text)
    assert (best.document, best.place) == ("rent.pdf", "page 2")
    best_sentence = filled.search("Bob Ray paid pounds to the landlord")[0].sentences[0]
    assert (best_sentence.text, best_sentence.place) == (PAGES[1], "page 2")


def test_what_is_appended_has_its_own_places(filled):
    filled.append("rent.pdf", "Liv Berg sings alto.")
    filled.append(
        "rent.pdf", Draft.of_source(SourceDocument("Max Orr teaches.", parts=((0, "page 1"),), name="b"))
    )
    assert place(filled, "rent.pdf", "Who owns a boat?", "Eve Moss") == "page 3"
    assert place(filled, "rent.pdf", "Who sings alto?", "Liv Berg") is None
    assert place(filled, "rent.pdf", "Who teaches?", "Max Orr") == "appended, page 1"


def test_a_merged_document_names_document_and_page(filled):
    filled.add("note", "Ann Lee lives in Bath.")
    filled.merge("all", ["rent.pdf", "note", "more.pdf"])
    assert place(filled, "all", "How much did Bob Ray pay?", "900") == "rent.pdf, page 2"
    assert place(filled, "all", "Who bakes bread?", "Kim Hale") == "more.pdf, page 2"
    parts = unpack_parts(filled.store.get("all").entry.parts, "all")
    text = filled.store.get("all").text
    assert [(text[at:].split(".")[0], label) for at, label in parts[3:5]] == [
        ("Ann Lee lives in Bath", "note"),
        ("Dan Fox sails to Dover", "more.pdf, page 1"),
    ]
