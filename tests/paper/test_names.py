"""Names in English text become `@entityN`, decided by counts and by the text read so far."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.paper.vocabulary import CapitalFinder, NameTable, Vocabulary, mark_names
from attar.text.sentences import iterate_sentences

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
        ("He admired O'Brien, McGregor and d'Artagnan.", ["O'Brien", "McGregor", "d'Artagnan"]),
        ("They sailed to St. Petersburg and Baden-Baden.", ["St. Petersburg", "Baden-Baden"]),
        ("She loved Ludwig van Beethoven and J. K. Rowling.", ["Ludwig van Beethoven", "J. K. Rowling"]),
        ("He read of Henry VIII and Stephen King.", ["Henry VIII", "Stephen King"]),
        ("King Lear met Sir Walter Scott.", ["Lear", "Walter Scott"]),
        ("We went to the University of London.", ["London"]),
        ("They heard Simon & Garfunkel, and Ann & others.", ["Simon & Garfunkel", "Ann"]),
        ("THE HOUSE OF LONDON", ["LONDON"]),
        ('He said, "Never!" and "The house?"', []),
        ("The Red Death came.", ["Red Death"]),
        ("He said NEVER to NASA.", ["NASA"]),
        ("A text without any of them.", []),
        ("", []),
    ],
)
def test_names_are_found(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_a_common_word_is_a_name_where_it_was_one_before() -> None:
    table = NameTable()
    table.learn(["Grace"])
    assert list(mark_names([["Grace", "walked"], ["The", "Grace"]], table, FINDER)) == [
        ["@entity0", "walked"],
        ["The", "@entity0"],
    ]
    assert names("Grace walked. He said Grace.") == []


def test_other_words_keep_their_capitals() -> None:
    marked = list(mark_names([["The", "Darcy", "Mr.", "came"]], NameTable(), FINDER))
    assert marked == [["The", "@entity0", "Mr.", "came"]]


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
    assert [*mark_names(a, parts, FINDER), *mark_names(b, parts, FINDER)] == at_once
    assert parts.names == whole.names


@given(st.text())
def test_any_text_can_be_marked(text: str) -> None:
    table = NameTable()
    marked = list(mark_names(iterate_sentences(text), table, FINDER))
    assert len(marked) == len(list(iterate_sentences(text)))


def learn(table: NameTable, *found: str) -> list[int | None]:
    return [table.learn(name.split()) for name in found]


class TestNameTable:
    def test_a_surname_or_first_name_means_the_longer_name(self) -> None:
        found = learn(NameTable(), "Elizabeth Bennet", "Bennet", "Elizabeth", "ELIZABETH BENNET")
        assert found == [0, 0, 0, 0]

    def test_a_part_of_two_longer_names_is_a_name_of_its_own(self) -> None:
        assert learn(NameTable(), "Jane Bennet", "Lydia Bennet", "Bennet", "Jane") == [0, 1, 2, 0]

    def test_a_longer_name_gets_the_id_of_its_known_part(self) -> None:
        table = NameTable()
        assert learn(table, "Heathcliff", "Linton", "Edgar Linton", "Linton") == [0, 1, 1, 1]
        assert table.names == ["Heathcliff", "Edgar Linton"]

    @pytest.mark.parametrize("longer", ["London Bridge", "New York", "University of London", "Chicago Bulls"])
    def test_a_word_of_a_place_or_institution_is_another_name(self, longer: str) -> None:
        assert learn(NameTable(), longer, longer.split()[-1], longer.split()[0]) == [0, 1, 2]

    def test_a_full_table_learns_only_longer_spellings(self) -> None:
        assert learn(NameTable(limit=1), "Ann", "Bob", "Ann Lee") == [0, None, 0]
