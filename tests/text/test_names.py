"""Names in English text become `@entityN`, decided by counts and by the text read so far."""

import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import MissingError
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, SpacyFinder, mark_names
from attar.text.tokens import iterate_sentences
from attar.text.vocabulary import Vocabulary

COMMON = "when then the after house said walked rose grace people never loudly running little death red new"
VOCABULARY = Vocabulary(
    (), dict.fromkeys(COMMON.split(), (0, 9)) | dict.fromkeys(["darcy", "london", "ann", "emma"], (9, 0))
)
FINDER = CapitalFinder(VOCABULARY)


def names(text: str) -> list[str]:
    table = NameTable()
    list(mark_names(iterate_sentences(text), table, FINDER))
    return table.names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When Mr. Darcy came, he met Jane Bennet.", ["Darcy", "Jane Bennet"]),
        ("Darcy left. Then Emma's aunt came.", ["Darcy", "Emma"]),
        ("I saw her on Monday in May, at Christmas.", []),
        ("The English doctor spoke to Norman Bates.", ["English", "Norman Bates"]),
        ("He admired O'Brien, McGregor and d'Artagnan.", ["O'Brien", "McGregor", "d'Artagnan"]),
        ("They sailed to St. Petersburg and Baden-Baden.", ["St. Petersburg", "Baden-Baden"]),
        ("She loved Ludwig van Beethoven and J. K. Rowling.", ["Ludwig van Beethoven", "J. K. Rowling"]),
        ("He read of Henry VIII and Stephen King.", ["Henry VIII", "Stephen King"]),
        ("King Lear met Sir Walter Scott.", ["Lear", "Walter Scott"]),
        ("We went to the University of London.", ["University of London"]),
        ("It was at the University then.", []),
        ("He fell in the Battle of the Marne.", ["Battle of the Marne"]),
        ("House of the Dragon is long.", ["House of the Dragon"]),
        ("He signed the Treaty of Versailles.", ["Treaty of Versailles"]),
        ("It was Darcy of the London of the rich.", ["Darcy", "London"]),
        ("National League of Zorro went on.", ["National League of Zorro"]),
        ("He went to La Scala for La traviata.", ["La Scala"]),
        ("La Scala is in Milan.", ["La Scala", "Milan"]),
        ("They heard Simon & Garfunkel, and Ann & others.", ["Simon & Garfunkel", "Ann"]),
        ("He left the US then. US people said so.", ["US"]),
        ("AFTER US THE HOUSE OF LONDON", ["LONDON"]),
        ("Their CEO said the EP came in 30 AD.", []),
        ("He said Don't Panic to Ann.", ["Panic", "Ann"]),
        ("New York is large.", ["New York"]),
        ("CHAPTER XII\n\nTHE HOUSE", []),
        ("Running loudly, people said so. Zeroing in, he left.", []),
        ('He said, "Never!" and "The house?"', []),
        ("The Red Death came.", ["Red Death"]),
        ("He said NEVER to NASA.", ["NASA"]),
        ("Hi Ann, how are you? Okay, said Emma. Hello Bob. Thanks Darcy!", ["Ann", "Emma", "Bob", "Darcy"]),
        ("In Sep we met Ann. On Oct 3 and Sept. 4 she came, on Tue and Fri.", ["Ann"]),
        ("They saw Jan van Eyck.", ["Jan van Eyck"]),
        ("A text without any of them.", []),
        ("", []),
    ],
)
def test_names_are_found(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_a_common_word_at_the_start_is_a_name_after_it_was_one_inside_a_sentence() -> None:
    assert names("Grace walked. He saw Miss Grace. Grace walked.") == ["Grace"]
    marked = list(
        mark_names(iterate_sentences("Grace walked. He saw Miss Grace. Grace walked."), NameTable(), FINDER)
    )
    assert [sentence[0] for sentence in marked] == ["Grace", "He", "@entity0"]


def test_other_words_keep_their_capitals() -> None:
    assert list(mark_names([["The", "Darcy", "Mr."]], NameTable(), FINDER)) == [["The", "@entity0", "Mr."]]


def test_names_that_a_full_table_does_not_take_stay_words() -> None:
    marked = list(mark_names([["then", "Ann", "met", "Emma"]], NameTable(limit=1), FINDER))
    assert marked == [["then", "@entity0", "met", "Emma"]]


WORDS = (
    "Ann Emma Darcy Grace The When Mr. King van of University VIII I NASA US the & La Treaty "
    "house said , . -- \" '"
)
words = st.sampled_from(WORDS.split())
texts = st.lists(st.lists(words, min_size=1, max_size=9), max_size=6)


@given(texts, texts)
def test_marking_in_two_parts_equals_marking_the_whole(a: list[list[str]], b: list[list[str]]) -> None:
    whole, parts = NameTable(limit=5), NameTable(limit=5)
    at_once = list(mark_names(a + b, whole, FINDER))
    first = list(mark_names(a, parts, FINDER))
    parts = NameTable.from_bytes(parts.to_bytes())
    assert first + list(mark_names(b, parts, FINDER)) == at_once
    assert parts == whole


@given(st.text(), st.text())
def test_marking_any_two_paragraphs_in_turn_equals_marking_their_join(a: str, b: str) -> None:
    table = NameTable()
    parts = [
        *mark_names(iterate_sentences(a), table, FINDER),
        *mark_names(iterate_sentences(b), table, FINDER),
    ]
    assert parts == list(mark_names(iterate_sentences(a + "\n\n" + b), NameTable(), FINDER))


def test_the_error_without_spacy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingError, match="pip install spacy"):
        SpacyFinder()


def test_spacy_finds_names_through_the_same_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    class Name:
        start, end, label_ = 0, 2, "PERSON"

    class Date:
        start, end, label_ = 2, 3, "DATE"

    class Read:
        ents = (Name(), Date())

    class Pipeline:
        vocab = None

        def __call__(self, document: object) -> Read:
            return Read()

    spacy = ModuleType("spacy")
    spacy.load = lambda model: Pipeline()  # type: ignore[attr-defined]
    spacy.tokens = ModuleType("tokens")  # type: ignore[attr-defined]
    spacy.tokens.Doc = lambda vocab, words: list(words)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    assert list(mark_names([["ann", "lee", "left"]], NameTable(), SpacyFinder())) == [["@entity0", "left"]]
