"""A vocabulary maps words to ids, in one file that Hugging Face tokenizers read too."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.text.vocabulary import Vocabulary

TEXT = "The dog saw Rex and Rex saw the dog. Then Mary gave a rose to Rex. In May the dog slept, said Mary."


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.build([TEXT], size=50, entities=3)


def test_special_tokens_come_first(vocabulary: Vocabulary) -> None:
    assert vocabulary.tokens[:6] == ("<pad>", "<unk>", "@placeholder", "@entity0", "@entity1", "@entity2")
    assert vocabulary.encode(vocabulary.tokens[:6]) == [0, 1, 2, 3, 4, 5]


def test_names_are_counted_but_are_not_among_the_words(vocabulary: Vocabulary) -> None:
    assert "dog" in vocabulary.words
    assert "may" in vocabulary.words
    assert "rex" not in vocabulary.words
    assert vocabulary.capital_share("rex") == 1
    assert vocabulary.capital_share("dog") == 0
    assert vocabulary.capital_share("cat") is None


def test_case_does_not_matter_and_unknown_words_share_an_id(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode(["DOG", "Dog"]) == vocabulary.encode(["dog"]) * 2
    assert vocabulary.encode(["zebra", "\ud800", "", "@entity3", "日本"]) == [vocabulary.unknown] * 5


def test_decoding_gives_the_tokens_back(vocabulary: Vocabulary) -> None:
    assert vocabulary.decode(vocabulary.encode(["the", "@entity2", "slept"])) == ["the", "@entity2", "slept"]


def test_size_limits_the_number_of_words() -> None:
    assert len(Vocabulary.build([TEXT], size=4, entities=3)) == 3 + 3 + 4
    assert len(Vocabulary.build([], entities=3)) == 6


def test_saving_and_loading_gives_the_same_vocabulary(vocabulary: Vocabulary, tmp_path: Path) -> None:
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert loaded == vocabulary
    assert loaded.fingerprint == vocabulary.fingerprint
    assert loaded.fingerprint != Vocabulary.build([TEXT], size=4).fingerprint


@given(st.lists(st.text(max_size=30), max_size=4))
def test_a_vocabulary_of_any_text_survives_encoding(texts: list[str]) -> None:
    vocabulary = Vocabulary.build(texts, entities=2)
    assert Vocabulary.from_bytes(vocabulary.to_bytes()) == vocabulary


def test_hugging_face_reads_the_same_file(vocabulary: Vocabulary, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    vocabulary.save(tmp_path / "tokenizer.json")
    tokens = ["the", "Dog", "saw", "@entity1", ",", "zebra", "@placeholder", "."]
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(" ".join(tokens))
    assert theirs.ids == vocabulary.encode(tokens) == vocabulary.tokenizer().encode(" ".join(tokens)).ids


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"model": {}}', b"[1]", b"\xff", b'{"model": {"vocab": {"a": 1}}}']
)
def test_a_file_of_another_kind_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.json: expected a vocabulary"):
        Vocabulary.load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"entities":3', '"entities":1000000000000000'),
        ('"entities":3', '"entities":-1'),
        ('"entities":3', '"entities":"2"'),
        ('"<unk>":1', '"<unk>":0'),
        ('"<unk>":1', '"<unk>":1.5'),
        ('"<unk>":1', '"<unk>":null'),
        ('"<unk>":1', '"<unk>":7000000000'),
        ('"capitals":{', '"capitals":{"x":[1],'),
        ('"capitals":{', '"capitals":{"x":[1,-2],'),
    ],
)
def test_counts_and_ids_of_another_type_or_range_are_refused(
    vocabulary: Vocabulary, old: str, new: str
) -> None:
    data = vocabulary.to_bytes().decode()
    assert data.count(old) == 1
    with pytest.raises(FormatError, match=r"tokenizer\.json: expected a vocabulary") as refused:
        Vocabulary.from_bytes(data.replace(old, new).encode())
    assert "\n" not in str(refused.value)


def test_the_error_for_a_damaged_file_names_the_commands_that_write_one(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"[" * 200_000)
    with pytest.raises(FormatError, match="; attar cloze build and attar train write one"):
        Vocabulary.load(tmp_path / "x.json")


def test_marks_in_marked_text_are_not_words() -> None:
    text = "@entity1 met @entity20 . @placeholder left"
    assert set(Vocabulary.build([text], marked=True).words) == {"met", ".", "left"}
    assert set(Vocabulary.build([text]).words) >= {"entity1", "entity20", "placeholder"}


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none: expected a tokenizer\.json, got No such file"):
        Vocabulary.load(tmp_path / "none")
