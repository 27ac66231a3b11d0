"""A vocabulary maps words to ids, counts capitals, and survives its file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.paper.vocabulary import PLACEHOLDER, UNKNOWN, Vocabulary
from attar.text.sentences import iterate_sentences

TEXT = "The dog saw Rex and Rex saw the dog. Then Mary gave a rose to Rex. In May the dog slept, said Mary."


def build(text: str, **options: int) -> Vocabulary:
    return Vocabulary.build(iterate_sentences(text), **options)


@pytest.fixture
def vocabulary() -> Vocabulary:
    return build(TEXT, size=50, entities=3)


def test_names_are_counted_but_are_not_among_the_words(vocabulary: Vocabulary) -> None:
    assert "dog" in vocabulary.words
    assert "may" in vocabulary.words
    assert "rex" not in vocabulary.words
    assert vocabulary.capital_share("rex") == 1
    assert vocabulary.capital_share("dog") == 0
    assert vocabulary.capital_share("cat") is None


def test_words_have_ids_after_the_names(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode(vocabulary.words) == list(range(3 + 3, len(vocabulary)))
    assert vocabulary.encode(["@placeholder"]) == [PLACEHOLDER]


def test_case_does_not_matter_and_unknown_words_share_an_id(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode(["DOG", "Dog"]) == vocabulary.encode(["dog"]) * 2
    assert vocabulary.encode(["zebra", "\ud800", "", "@entity1", "日本"]) == [UNKNOWN] * 5


def test_size_limits_the_number_of_words() -> None:
    assert len(build(TEXT, size=4, entities=3)) == 3 + 3 + 4
    assert len(build("", entities=3)) == 6


def test_marks_are_not_words() -> None:
    sentence = ["@entity1", "met", "@entity20", ".", "@placeholder", "left"]
    assert set(Vocabulary.build([sentence]).words) == {"met", ".", "left"}


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
        b'{"words": ["a", "a"], "capitals": {}, "entities": 3}',
        b'{"words": [], "capitals": {}, "entities": 1000000000000}',
        b'{"words": [], "capitals": {"x": [1, -2]}, "entities": 3}',
    ],
    ids=["empty", "no fields", "nested", "no text", "a word twice", "too many names", "a negative count"],
)
def test_a_file_of_another_kind_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.json is not a vocabulary .*attar paper build") as refused:
        Vocabulary.load(tmp_path / "x.json")
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot read .*none: No such file"):
        Vocabulary.load(tmp_path / "none")
