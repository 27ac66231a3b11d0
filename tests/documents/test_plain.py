"""Plain text in any encoding, JSON, JSON lines and Parquet."""

import codecs
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.documents.plain import decode_text
from attar.errors import FormatError
from tests.documents.document_files import read_here

WORDS = "Brontë’s café – “naïve” and déjà vu, £12 in all. " * 3


@pytest.mark.parametrize(
    ("encoding", "bom"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-16-le", b""),
        ("utf-16-be", b""),
        ("cp1252", b""),
    ],
)
def test_text_is_read_in_its_encoding(encoding, bom):
    assert decode_text(bom + WORDS.encode(encoding), "a.txt") == WORDS


def test_cyrillic_in_an_older_encoding_is_read():
    text = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 3
    assert decode_text(text.encode("cp1251"), "a.txt") == text


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a\0\1\2",
        b"\x7fELF\2\1\1" + bytes(40),
        b"\xff\xfe\xfa",
        bytes(range(256)) * 4,
        b"\x89PNG\r\n\x1a\n\xff\xd8\x01\x02\x03\x04",
    ],
    ids=["gif", "program", "half of UTF-16", "every byte", "png"],
)
def test_binary_data_is_refused(data):
    with pytest.raises(FormatError, match=r"a\.txt is not a text"):
        decode_text(data, "a.txt")


def test_a_json_file_of_texts_is_several_documents(read):
    rows = [{"id": "x", "text": "Ann left."}, {"text": "Bob came.", "title": "Two", "date": "2026-03-04"}]
    documents = read("a.json", json.dumps(rows).encode())
    assert [(each.name, each.text) for each in documents] == [("x", "Ann left."), ("Two", "Bob came.")]
    assert (documents[1].title, documents[1].date) == ("Two", "2026-03-04")


def test_another_json_file_reads_as_sentences_with_its_keys(one):
    value = {
        "title": "Order 17",
        "customer": {"name": "Ann Lee", "city": "Bath"},
        "items": [{"name": "desk", "price": 120}, {"name": "lamp", "price": 35, "gift": True}],
        "tags": ["wood", "brass"],
    }
    document = one("order.json", json.dumps(value).encode())
    assert document.text.split("\n\n") == [
        "The title is Order 17.",
        "The name of customer is Ann Lee. The city of customer is Bath.",
        "The price of desk is 120.",
        "The price of lamp is 35. The gift of lamp is yes.",
        "tags: wood, brass.",
    ]
    assert [label for _, label in document.parts] == ["customer", "items 1", "items 2"]


def test_deeply_nested_json_is_refused_or_read_in_one_line(read):
    with pytest.raises(FormatError, match="is not JSON"):
        read("a.json", b"[" * 200_000)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def test_rows_of_parquet_are_documents():
    data = parquet(
        name=["a", None, "c"], text=["Ann left.", "Bob came.", None], date=["2026", "", ""], n=[1, 2, 3]
    )
    found = [(each.name, each.text, each.date) for each in read_here("x.parquet", data)]
    assert found == [("a", "Ann left.", "2026"), ("x.parquet-2", "Bob came.", "")]


@pytest.mark.slow
def test_a_text_that_stands_in_many_rows_is_in_memory_once():
    data = parquet(text=["Ann. " * 200_000] * 100)
    assert len(data) < 2**20
    assert sum(1 for _ in read_here("x.parquet", data, 2**21)) == 100


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (parquet(txt=["Ann left."]), 'has no column "text" of strings'),
        (parquet(text=[1, 2]), 'has no column "text" of strings'),
        (b"PAR1" + bytes(50), "is not a Parquet file, or is damaged"),
        (
            parquet(text=[f"{at} " * 1_000 for at in range(2_000)]),
            "at most 1,048,576 bytes when decompressed",
        ),
    ],
    ids=["no text", "numbers", "damaged", "too large"],
)
def test_other_parquet_is_refused(data, expected):
    with pytest.raises(FormatError, match=rf"x\.parquet.* {expected}"):
        list(read_here("x.parquet", data, 2**20))
