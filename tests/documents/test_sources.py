"""Files, folders and archives are read into texts; errors name the file in one line."""

import json
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from attar.documents import sources
from attar.documents.sources import find_files
from attar.documents.workers import read_sources
from attar.errors import FormatError
from tests.documents.document_files import read_here


def read(*paths: Path) -> list[tuple[str, str, str]]:
    return [(document.source, document.name, document.text) for document in read_sources(paths)]


def test_json_lines_are_named_by_id_title_or_line_number(tmp_path: Path) -> None:
    rows = [{"id": "x", "text": "1"}, {"text": "2"}, {"title": "t", "text": "3"}]
    data = "\n".join(map(json.dumps, rows)).encode()
    (tmp_path / "wiki.jsonl").write_bytes(data)
    (tmp_path / "wiki.jsonl.xz").write_bytes(lzma.compress(data))
    expected = [("wiki", "x", "1"), ("wiki", "wiki-2", "2"), ("wiki", "t", "3")]
    assert read(tmp_path / "wiki.jsonl") == read(tmp_path / "wiki.jsonl.xz") == expected


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "a.txt").write_text("1")
    (books / "b.txt").write_text("2")
    (books / "link.txt").symlink_to(books / "a.txt")
    assert read(books / "b.txt", books, books / "a.txt", books) == [("b", "b", "2"), ("books", "a", "1")]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", r"a\.txt is empty"),
        ("a.txt", b" \n ", "is blank"),
        ("a.txt", b"\x7fELF\0\0", "binary data"),
        ("a.pages", b"text", r"\.pages files are not read; save it as DOCX"),
        ("a.jsonl", b"", "is empty"),
        (
            "a.jsonl",
            b'{"text": "1"}\n{"text": 2}\n',
            r'a\.jsonl, line 2 is not an object with "text", a string',
        ),
        (
            "a.jsonl",
            b'{"text": "1"}\n{"body": "1"}\n',
            'is not an object with "text", a string',
        ),
        ("a.jsonl", b"null\n", 'is not an object with "text", a string'),
        ("a.jsonl", b'{"text": "1"}\nnot json\n', "line 2 is not a JSON object"),
        ("a.jsonl", b" \n\n", "is empty"),
        ("a.jsonl", b"[" * 200_000, "line 1 is not a JSON object"),
        ("a.txt.xz", b"not xz", "is damaged"),
        ("a.txt.xz", lzma.compress(b"text" * 99)[:40], "is damaged"),
        ("a.tar.xz", b"not xz", "is damaged"),
    ],
)
def test_a_file_that_is_not_text_is_reported_in_one_line(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_and_empty_paths_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        read(tmp_path / "none.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="has no documents"):
        read(tmp_path / "empty")


def test_hidden_and_other_files_of_a_folder_are_skipped_with_reasons(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "a.txt").write_text("no")
    for name, data in {
        ".notes.txt": b"no",
        **dict.fromkeys(
            ("~$a.docx", "Thumbs.db", ".DS_Store", "desktop.ini", ".~lock.a.odt#", "lock.mdb"), b"left behind"
        ),
        "README": b"Read me.",
        "core": b"\x7fELF\0\0",
        "song.mp3": b"\x89PNG\0",
        "old.pages": b"\xd0\xcf\x11\xe0",
        "notes.md": b"# Notes",
    }.items():
        (tmp_path / name).write_bytes(data)
    files, skipped, folders = find_files([tmp_path])
    assert [file.name for file in files] == ["README", "notes.md"]
    assert folders == [tmp_path]
    assert {file.path.name: file.reason for file in skipped} == {
        ".git": "hidden",
        ".notes.txt": "hidden",
        "core": "binary data",
        "song.mp3": ".mp3 is not a kind of document; name the file itself to read it as text",
        "old.pages": ".pages is not read; save it as DOCX",
    }


def test_files_that_differ_in_their_suffix_have_different_names(tmp_path: Path) -> None:
    for name in ("a", "a.txt", "a.md", "a.html", "b.txt"):
        (tmp_path / name).write_text("Ann left.")
    names = [file.name for file in find_files([tmp_path]).files]
    assert names == ["a", "a.html", "a.md", "a.txt", "b"]


@pytest.mark.parametrize("url", ["https://example.org/a.html", "ftp://example.org", "file:///etc/passwd"])
def test_a_url_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(FormatError, match="is a URL, and nothing is fetched; save the page first"):
        find_files([url])


BOMB = """
import resource, sys
from attar.errors import AttarError, FormatError
from tests.documents.document_files import docx_of
from attar.documents import read_sources
limit = 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[1:]:
    try:
        list(read_sources([path]))
    except FormatError as fault:
        print(fault)
"""


@pytest.mark.slow
def test_a_small_file_that_grows_to_gigabytes_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Addresses are limited to 1 GB: the default limit of 1 GB must not be needed in full by a header."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2**31
    blocks = header.tobuf(tarfile.USTAR_FORMAT)
    # Streams of a file follow each other: one of 64 MB is compressed, and written again and again.
    zeros = lzma.compress(bytes(2**26), preset=0)
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(blocks) + zeros * 2**5)
    assert (tmp_path / "a.tar.xz").stat().st_size < 10**6
    ran = subprocess.run([sys.executable, "-c", BOMB, tmp_path / "a.tar.xz"], capture_output=True, text=True)
    assert ran.stderr == ""
    assert "a header of 2,147,483,648 bytes" in ran.stdout


def test_json_lines_without_texts_are_the_rows_of_a_table() -> None:
    rows = b'{"firm": "Lee", "until": 2027}\n{"firm": "Ray", "until": 2029}\n'
    (document,) = read_here("a.jsonl", rows)
    assert document.text == "The until of Lee is 2027.\n\nThe until of Ray is 2029."


def test_a_file_that_vanishes_during_the_walk_does_not_end_it(tmp_path: Path, monkeypatch) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Ann left.")
    monkeypatch.setattr(sources, "_is_read", lambda file, *_: file.unlink() or True)
    assert [file.name for file in find_files([tmp_path]).files] == ["a", "b"]
