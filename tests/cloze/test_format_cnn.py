"""The CNN set's format is read and written to the byte, and what is malformed is named with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.cloze.format_cnn import (
    QuestionFile,
    format_question,
    group_questions,
    parse_question,
    split_tokens,
    ungroup_questions,
)
from attar.errors import FormatError

FILE = (
    b"http://example.com/a\n\n( @entity1 ) -- @entity0 met @entity1 . he left .\n\n"
    b"@placeholder met @entity1\n\n@entity0\n\n@entity1:CNN\n@entity0:Ann: the first"
)


def test_blocks_are_read() -> None:
    file = parse_question(FILE, "a.question")
    assert file.url == "http://example.com/a"
    assert file.question == "@placeholder met @entity1"
    assert file.answer == "@entity0"
    assert file.names == ((1, "CNN"), (0, "Ann: the first"))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
def test_bytes_come_back(ending: bytes) -> None:
    assert format_question(parse_question(FILE + ending, "a")) == FILE + ending


line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
    str.strip
)
names = st.dictionaries(
    st.integers(0, 999),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
    min_size=1,
)


@given(line, line, names, st.data())
def test_every_well_formed_file_comes_back_to_the_byte(
    url: str, document: str, names: dict[int, str], data: st.DataObject
) -> None:
    answer = data.draw(st.sampled_from(sorted(names)))
    file = QuestionFile(
        url,
        f"{document} @entity{answer} .",
        "who is @placeholder ?",
        f"@entity{answer}",
        tuple(names.items()),
        "\n",
    )
    assert parse_question(format_question(file), "a") == file


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: expected five blocks"),
        (b"u\n\nd\n\nq", "line 5: expected five blocks"),
        (FILE + b"\n\nmore", "line 12: expected five blocks .* got 6 blocks"),
        (FILE.replace(b"http://example.com/a", b" "), "line 1: expected the url on one line"),
        (FILE.replace(b". he", b".\nhe"), "line 3: expected the document on one line"),
        (FILE.replace(b"@placeholder", b"@placeholder @placeholder"), "line 5: expected a question with one"),
        (FILE.replace(b"@placeholder", b"who"), "line 5: expected a question with one"),
        (
            FILE.replace(b"\n\n@entity0\n\n", b"\n\n@entity7\n\n"),
            "line 7: expected an answer among the names",
        ),
        (FILE.replace(b"\n\n@entity0\n\n", b"\n\nAnn\n\n"), "line 7: expected an answer among the names"),
        (FILE.replace(b"@entity1:CNN", b"@entity1 CNN"), "line 9: expected @entityN:Name"),
        (FILE + b"\nnonsense", "line 11: expected @entityN:Name"),
        (FILE.replace(b"left", b"\xff"), "line 3: expected UTF-8 text, got the byte 0xff"),
        (
            FILE.replace(b"@entity0:", b"@entity007:"),
            "line 10: expected @entityN:Name, N .* without leading zeros",
        ),
        (FILE + "\n@entity٣٣:Bob".encode(), "line 11: expected @entityN:Name"),
        (FILE + b"\n@entity4000000000:Bob", "line 11: expected @entityN:Name, N from 0 to 9999"),
        (FILE + b"\n@entity" + b"7" * 5000 + b":Bob", "line 11: expected @entityN:Name"),
        (
            FILE + b"\n@entity1:BBC",
            "line 11: expected one name for @entity1, got 'BBC' after 'CNN'",
        ),
        (
            FILE.replace(b"-- @entity0 met", b"-- Ann met"),
            "line 7: expected an answer that the document holds, got '@entity0'",
        ),
    ],
)
def test_a_malformed_file_is_named_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=rf"^a\.question, {message}"):
        parse_question(data, "a.question")


@pytest.mark.parametrize("word", ["@entity5000", "@entity" + "7" * 5000, "@entity007", "@placeholder"])
def test_a_mark_in_the_document_that_names_nobody_is_let_be(word: str) -> None:
    data = FILE.replace(b"he left", word.encode() + b" left")
    assert word in parse_question(data, "a").document


def test_a_name_listed_twice_is_let_be() -> None:
    assert format_question(parse_question(FILE + b"\n@entity1:CNN", "a")) == FILE + b"\n@entity1:CNN"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_file_or_a_clear_error(data: bytes) -> None:
    try:
        parsed = parse_question(data, "a")
    except FormatError as mistake:
        message = str(mistake)
    else:
        assert format_question(parsed) == data
        return
    assert message.startswith("a, line ")


def test_sentences_keep_all_tokens_in_order() -> None:
    tokens = ['"', "why", "?", '"', "he", "said", ".", "she", "left", "!", "and", "then"]
    cut = split_tokens(tokens)
    assert [token for sentence in cut for token in sentence] == tokens
    assert cut[-1] == ["and", "then"]


def test_questions_on_one_document_become_one_and_go_apart_again() -> None:
    first = parse_question(FILE, "a")
    second = QuestionFile(first.url, first.document, "@entity0 met @placeholder", "@entity1", first.names)
    document = group_questions([first, second], "cnn")
    assert document.name == "http://example.com/a"
    assert document.names == {1: "CNN", 0: "Ann: the first"}
    assert [question.answer for question in document.questions] == [0, 1]
    assert len(document.sentences) == 2
    assert ungroup_questions(document) == [first, second]
