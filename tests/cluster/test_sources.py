"""Sources that Ray reads: files, folders and URLs, under the names that a folder's files have."""

import fsspec
import pytest

from attar.cluster.sources import find_sources, read_documents
from attar.errors import AttarError, FormatError
from attar.library.drafts import Draft


@pytest.fixture
def bucket():
    """A folder in a file system of fsspec."""
    files = fsspec.filesystem("memory")
    for path, data in {
        "a.txt": b"Ann left.",
        "sub/b.md": b"# Bob *came*",
        "sub/b.jsonl": b'{"id": "x", "text": "Eve ran."}\n{"id": "y"}\n',
        ".hidden.txt": b"Nobody.",
        "picture.mp3": b"\x89PNG",
    }.items():
        files.pipe(f"/bucket/{path}", data)
    yield "memory://bucket"
    files.rm("/bucket", recursive=True)


def test_documents_of_a_url_have_the_names_of_a_folder_s_files(bucket):
    found = list(read_documents(find_sources([bucket]).files))
    assert [each.name for each in found if isinstance(each, Draft)] == ["a", "x", "sub/b.md"]
    (fault,) = (each for each in found if isinstance(each, AttarError))
    assert "memory:///bucket/sub/b.jsonl" in str(fault)
    assert "line 2" in str(fault)


def test_a_url_of_one_file(bucket):
    (file,) = find_sources([f"{bucket}/a.txt"]).files
    ((draft,), origin) = list(read_documents([file])), "memory:///bucket/a.txt"
    assert (draft.name, draft.text, draft.entry.source) == ("a", "Ann left.", origin)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nowhere", "there are no documents"),
        ("gopher://host/file", "cannot be read: Protocol not known: gopher"),
    ],
)
def test_a_url_that_cannot_be_read_is_one_line(url, message):
    with pytest.raises(FormatError, match=f"{url}.*{message}"):
        find_sources([url])
