"""A document whose file was read in part says so wherever it is shown."""

from pathlib import Path

import pytest

from attar.documents.sources import find_files
from attar.documents.workers import FileReader
from attar.library.drafts import read_files, read_upload
from attar.library.library import Library
from attar.reader.reader import Reader

MAIL = b"From: a@b\n" + b"To: b@c\n" * 5_000 + b"\nAnn left the house.\n"
MISSING = "a part of its headers"


@pytest.fixture
def library(tmp_path: Path, tiny_reader: Reader) -> Library:
    (tmp_path / "mail.eml").write_bytes(MAIL)
    with Library(tmp_path / "library", tiny_reader) as library:
        library.add_many(read_files(find_files([tmp_path / "mail.eml"]).files))
        yield library


def test_in_the_result_of_adding(tmp_path: Path, tiny_reader: Reader) -> None:
    with FileReader() as files, Library(tmp_path / "library", tiny_reader) as library:
        (change,) = library.add_many(read_upload(files, "mail.eml", MAIL))
    assert change.incomplete == MISSING


def test_in_lists_and_details(library: Library) -> None:
    assert [document.incomplete for document in library.documents()] == [MISSING]
    assert library.show("mail.eml").incomplete == MISSING


def test_after_more_was_appended(library: Library) -> None:
    assert library.append("mail.eml", "Bob came.").incomplete == MISSING


def test_in_a_merged_document(library: Library) -> None:
    library.add("note", "Bob came.")
    assert library.merge("both", ["note", "mail.eml"]).incomplete == f"mail.eml: {MISSING}"
