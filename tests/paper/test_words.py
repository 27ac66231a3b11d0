"""Names in English text become `@entityN`, decided by counts of capitals and by the text so far.

A vocabulary has the most frequent words that are not names, and survives its file.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.paper.words import CapitalFinder, NameTable, Vocabulary, WordCounts, mark_names
from attar.text.sentences import iterate_sentences

COMMON = "when then the after house said walked rose grace people never loudly running little death red new"
CAPITALS = dict.fromkeys(COMMON.split(), (0, 9)) | dict.fromkeys(["darcy", "london", "ann", "emma"], (9, 0))
FIND = CapitalFinder(CAPITALS, ()).find


def names(text: str) -> list[str]:
    table = NameTable()
    list(mark_names(iterate_sentences(text), table, FIND))
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
    assert list(mark_names([["Grace", "walked"], ["The", "Grace"]], table, FIND)) == [
        ["@entity0", "walked"],
        ["The", "@entity0"],
    ]
    assert names("Grace walked. He said Grace.") == []


TEXT = "The dog saw Rex and Rex saw the dog. Then Mary gave a rose to Rex. In May the dog slept, said Mary."


def build(text: str, **options: int) -> Vocabulary:
    return Vocabulary.build(WordCounts(iterate_sentences(text)), **options)


@pytest.fixture
def vocabulary() -> Vocabulary:
    return build(TEXT, size=50, entities=3)


def test_names_are_not_among_the_words(vocabulary: Vocabulary) -> None:
    assert "dog" in vocabulary.words
    assert "may" in vocabulary.words
    assert "rex" not in vocabulary.words
    capitals = WordCounts(iterate_sentences(TEXT)).capitals
    assert (capitals["rex"], capitals["dog"]) == ((3, 0), (0, 3))


@given(st.lists(st.text(max_size=30), max_size=4))
def test_a_vocabulary_of_any_text_survives_its_file(tmp_path_factory, texts: list[str]) -> None:
    file = tmp_path_factory.getbasetemp() / "vocabulary.json"
    vocabulary = build("\n\n".join(texts), entities=2)
    file.write_bytes(vocabulary.to_bytes())
    loaded = Vocabulary.load(file)
    assert loaded == vocabulary
    assert loaded.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 200_000,
        b"\xff",
        b'{"words": ["a", "a"], "entities": 3}',
        b'{"words": [], "entities": 1000000000000}',
    ],
    ids=["empty", "no fields", "nested", "no text", "a word twice", "too many names"],
)
def test_a_file_of_another_kind_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.json is not a vocabulary .*attar paper build") as refused:
        Vocabulary.load(tmp_path / "x.json")
    assert "\n" not in str(refused.value)
