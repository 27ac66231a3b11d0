"""A question becomes tokens with one blank; its names become the document's `@entityN`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import AttarError, FormatError
from attar.text.name_table import NameTable
from attar.text.questions import read_question
from attar.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary((), {"will": (2, 90)})


@pytest.fixture
def table() -> NameTable:
    return NameTable.of("Elizabeth Bennet", "Fitzwilliam Darcy", "Will", "Veltra Motors")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who married Elizabeth?", "@placeholder married @entity0 ."),
        ("___ married Elizabeth .", "@placeholder married @entity0 ."),
        ("@placeholder married Elizabeth Bennet", "@placeholder married @entity0 ."),
        ("Elizabeth's sister is ____!", "@entity0 's sister is @placeholder ."),
        ("who married elizabeth", "@placeholder married @entity0 ."),
        ("Who will marry Will?", "@placeholder will marry @entity2 ."),
        ("Whose house did Darcy buy?", "@placeholder 's house did @entity1 buy ."),
        ("Whom did Elizabeth marry?", "@entity0 marry @placeholder ."),
        ("For whom does Darcy work?", "@entity1 work for @placeholder ."),
        ("Where does Elizabeth live?", "@entity0 live in @placeholder ."),
        ("Where is Darcy staying?", "@entity1 is staying in @placeholder ."),
        ("Which company did Darcy found?", "@entity1 found @placeholder ."),
        ("What company bought Veltra Motors?", "@placeholder bought @entity3 ."),
        ("Elizabeth married whom?", "@entity0 married @placeholder ."),
        ("Who met Zorro?", "@placeholder met zorro ."),
        ("The man who left is ___", "the man who left is @placeholder ."),
    ],
)
def test_questions_become_statements_with_a_blank(question: str, expected: str, table: NameTable) -> None:
    assert read_question(question, table, VOCABULARY) == expected.split()


@pytest.mark.parametrize("question", ["Elizabeth married Darcy.", "the man who left", "", "  ", "?", "Why?"])
def test_the_error_without_a_blank_says_how_to_ask(question: str, table: NameTable) -> None:
    with pytest.raises(FormatError, match=r'ask "___ married Elizabeth \."'):
        read_question(question, table, VOCABULARY)


def test_two_blanks_are_refused(table: NameTable) -> None:
    with pytest.raises(FormatError, match="expected one blank, got 2 blanks"):
        read_question("___ married @placeholder", table, VOCABULARY)


@given(st.text())
def test_any_text_is_a_question_or_a_clear_error(text: str) -> None:
    try:
        tokens = read_question(text, NameTable(), VOCABULARY)
    except AttarError as mistake:
        message = str(mistake)
    else:
        assert tokens.count("@placeholder") == 1
        return
    assert message.startswith("question: expected")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who left the U.S.?", "@placeholder left the @entity0 ."),
        ("Who left the US?", "@placeholder left the @entity0 ."),
        ("Who left us?", "@placeholder left us ."),
        ("Who is Ada?", "@placeholder is ada ."),
        ("Who met Paul Dukas?", "@placeholder met @entity2 ."),
    ],
)
def test_a_short_form_means_the_longer_name(question: str, expected: str) -> None:
    table = NameTable.of("United States", "American Dental Association", "Paul Abraham Dukas")
    vocabulary = Vocabulary((), {"us": (1, 90)})
    assert read_question(question, table, vocabulary) == expected.split()


def test_a_typed_entity_mark_is_an_ordinary_word(table: NameTable) -> None:
    assert read_question("@entity0 met @placeholder", table, VOCABULARY)[:1] == ["entity0"]


def test_the_table_learns_nothing_from_a_question(table: NameTable) -> None:
    before = table.copy()
    read_question("Who met Zorro?", table, VOCABULARY)
    assert table == before


@pytest.mark.parametrize(
    "question", ["Dr. Okafor met ___ .", "Okafor met ___ .", "Okafor met Prof. Dr. ___ ."]
)
def test_titles_before_names_and_blanks_are_left_out_as_in_texts(question):
    table = NameTable.of("Okafor")
    assert read_question(question, table, Vocabulary(())) == ["@entity0", "met", "@placeholder", "."]
