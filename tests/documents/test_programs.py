"""Files that other programs read: pictures by Tesseract, files of older Office programs by LibreOffice."""

import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from attar.documents import programs
from attar.documents.sources import find_files
from attar.documents.workers import FileReader
from attar.errors import AttarError, FormatError, MissingError
from attar.options import FileLimits
from tests.documents.document_files import docx_of, pdf_of, xlsx_of
from tests.documents.office_files import compound_file, picture_of

needs_ocr = pytest.mark.skipif(not programs.has_ocr(), reason="needs tesseract")
needs_office = pytest.mark.skipif(not programs.has_office(), reason="needs LibreOffice")
LINES = ["FUEL PERMIT", "Holder: Wexcombe Boatyard", "Permit number: FP 30916"]
pytestmark = pytest.mark.slow


def read(name: str, data: bytes, **limits: object) -> list[str]:
    with FileReader(FileLimits(**limits)) as files:
        return [document.text for document in files.read_bytes(name, data)]


@needs_ocr
@pytest.mark.parametrize(("name", "kind"), [("a.png", "PNG"), ("a.JPG", "JPEG"), ("a.pdf", "PDF")])
def test_the_text_of_a_picture_is_recognised(name, kind):
    (text,) = read(name, picture_of(LINES, kind))
    assert [line for line in text.split("\n") if line] == LINES


@needs_ocr
def test_a_photo_without_words_is_no_document():
    assert read("a.png", picture_of([])) == []


@needs_ocr
def test_a_damaged_picture_is_refused_in_one_line():
    with pytest.raises(FormatError, match=r"^a\.png cannot be read by tesseract") as caught:
        read("a.png", b"\x89PNG no")
    assert "\n" not in str(caught.value)


def test_without_tesseract_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "has_ocr", lambda: False)
    with pytest.raises(MissingError, match=r"a\.pdf has no text: 1 page of pictures; install tesseract"):
        read("a.pdf", picture_of(LINES, "PDF"))


@pytest.mark.parametrize("name", ["a.png", "a.pdf"])
def test_nothing_is_recognised_with_never(name):
    with pytest.raises(FormatError, match=r"ocr auto"):
        read(name, picture_of(LINES, "PDF" if name == "a.pdf" else "PNG"), ocr="never")


def test_a_password_opens_an_encrypted_pdf():
    data = pdf_of(["Ann left."], password="secret")
    assert read("a.pdf", data, password="secret") == ["Ann left."]
    with pytest.raises(FormatError, match="is encrypted; its password is another"):
        read("a.pdf", data, password="wrong")


def older(name: str, data: bytes, suffix: str, folder: Path) -> bytes:
    """A file as an older Office program would have saved it."""
    (folder / name).write_bytes(data)
    profile = f"-env:UserInstallation=file://{folder}/profile"
    command = ["soffice", profile, "--headless", "--convert-to", suffix, "--outdir", folder, folder / name]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return (folder / name).with_suffix(f".{suffix}").read_bytes()


@needs_office
def test_files_of_older_office_programs_are_converted(tmp_path):
    data = older("a.docx", docx_of("# Rehearsals\n\nAnn left the hall."), "doc", tmp_path)
    assert read("a.doc", data) == ["Rehearsals\n\nAnn left the hall."]
    rows = [["Name", "Age", "Town"], ["Ann", 34, "Bath"]]
    data = older("b.xlsx", xlsx_of({"Staff": rows}), "xls", tmp_path)
    assert read("b.xls", data) == ["The age of Ann is 34. The town of Ann is Bath."]


@needs_office
def test_a_program_that_takes_too_long_is_ended():
    with pytest.raises(AttarError, match=r"a\.doc: reading it took more than 0 s"):
        programs.convert("a.doc", ".doc", BytesIO(compound_file({"a": b"b"})), FileLimits(seconds=0.05))


@pytest.mark.parametrize("data", [b"<html><img src=http://localhost/>", b"{\\rtf1 Ann}", b""])
def test_another_file_is_not_handed_to_libreoffice(monkeypatch, data):
    """It would fetch what a page links to, under any name."""
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(FormatError, match=r"^a\.doc is not a DOC file, or is damaged"):
        programs.convert("a.doc", ".doc", BytesIO(data), FileLimits())


def test_without_libreoffice_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FormatError, match=r"\.doc files are not read; save it as DOCX"):
        read("a.doc", b"Ann left.")


@pytest.mark.parametrize(
    ("program", "found"), [("/usr/bin/soffice", ["a.doc"]), (None, [])], ids=["with", "without"]
)
def test_older_files_in_a_folder_are_found_where_libreoffice_is(monkeypatch, tmp_path, program, found):
    monkeypatch.setattr(shutil, "which", lambda name: program)
    (tmp_path / "a.doc").write_bytes(b"Ann left.")
    assert [file.name for file in find_files([tmp_path], allow_empty=True).files] == found
