"""Compressed files and archives: all documents in them, within limits, and nothing is written to disk."""

import gzip
import io
import lzma
import zipfile

import pytest

from attar.documents import archives
from attar.errors import AttarError, FormatError
from tests.documents.document_files import docx_of, eml_of, html_of, pdf_of, tar_of, zip_of

FILES = {
    "a.txt": b"Ann left.",
    "sub/b.pdf": pdf_of(["Bob came."]),
    "sub/c.docx": docx_of("Cat slept."),
    "d.html": html_of("Dan stayed."),
    "e.txt.gz": gzip.compress(b"Eve met Bob."),
    "picture.png": b"\x89PNG\0",
    ".hidden.txt": b"No.",
    "__MACOSX/a.txt": b"No.",
    "sub/~$c.docx": b"No.",
}
NAMES = ["a", "sub/b.pdf", "sub/c.docx", "d.html", "e.txt.gz"]
TEXTS = ["Ann left.", "Bob came.", "Cat slept.", "Dan stayed.", "Eve met Bob."]


@pytest.mark.parametrize("name", ["all.zip", "all.tar", "all.tar.gz", "all.tgz", "all.txz", "all.tar.xz"])
def test_all_documents_of_an_archive_are_read(read, name):
    compression = {"z": "gz", "r": ""}.get(name[-1], "xz") if name[-2:] != "xz" else "xz"
    data = zip_of(FILES) if name == "all.zip" else tar_of(FILES, compression)
    documents = read(name, data)
    prefix = "" if name == "all.tar.xz" else name + "/"
    assert [each.name for each in documents] == [prefix + each for each in NAMES]
    assert [each.text for each in documents] == TEXTS


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt.gz", gzip.compress(b"Ann left."), ("a.txt.gz", "Ann left.")),
        ("a.md.xz", lzma.compress(b"# Ann\n\nleft."), ("a.md.xz", "Ann\n\nleft.")),
        ("a.pdf.gz", gzip.compress(pdf_of(["Ann left."])), ("a.pdf.gz", "Ann left.")),
        ("a.gz", gzip.compress(b"Ann left."), ("a.gz", "Ann left.")),
    ],
    ids=["text", "markdown", "pdf", "without a suffix"],
)
def test_a_compressed_file_is_read(one, name, data, expected):
    document = one(name, data)
    assert (document.name, document.text) == expected


def test_bad_members_are_reported_and_the_others_read(read):
    faults: list[AttarError] = []
    data = zip_of({"a.txt": b"Ann left.", "b.pdf": b"no", "c.docx": b"no", "d.txt": b"Dan stayed."})
    documents = read("all.zip", data, on_bad=faults.append)
    assert [each.text for each in documents] == ["Ann left.", "Dan stayed."]
    assert [str(fault).split(" is ")[0].rpartition("/")[2] for fault in faults] == [
        "all.zip: b.pdf",
        "all.zip: c.docx",
    ]


def test_names_do_not_lead_out_of_the_archive(read):
    names = [
        each.name for each in read("a.zip", zip_of({"../../etc/passwd.txt": b"A.", "/root/b.txt": b"B."}))
    ]
    assert names == ["a.zip/etc/passwd", "a.zip/root/b"]


def test_archives_in_archives_are_read_up_to_a_depth(read):
    data = zip_of({"a.txt": b"Ann left."})
    for _ in range(2):
        data = zip_of({"in.zip": data})
    assert [each.name for each in read("x.zip", data)] == ["x.zip/in.zip/in.zip/a"]
    with pytest.raises(FormatError, match="is an archive within 3 others"):
        read("x.zip", zip_of({"in.zip": data}))


def test_too_many_members_are_refused(read, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    files = {f"{number}.txt": b"Ann left." for number in range(4)}
    for name, data in (("a.zip", zip_of(files)), ("a.tar.gz", tar_of(files, "gz"))):
        with pytest.raises(FormatError, match="has more than 3 files"):
            read(name, data)


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz", "txt.gz", "jsonl.xz", "nested"])
def test_what_grows_beyond_the_limit_is_refused(read, kind):
    big = b"Ann left. " * 10_000
    data = {
        "zip": zip_of({"a.txt": big}),
        "tar.gz": tar_of({"a.txt": big}, "gz"),
        "tar.xz": tar_of({"a.txt": big}, "xz"),
        "jsonl.xz": lzma.compress(b'{"text": "%s"}' % big),
        "txt.gz": gzip.compress(big),
        "nested": zip_of({"b.txt.gz": gzip.compress(big)}),
    }[kind]
    name = f"a.{kind.replace('nested', 'zip')}"
    assert len(data) < 5_000
    with pytest.raises(FormatError, match=r"at most 50,000 bytes when decompressed.*max-file-memory-mb"):
        read(name, data, max_bytes=50_000)
    assert len(read(name, data, max_bytes=200_000)) == 1


def test_many_members_that_grow_together_are_refused(read):
    files = {f"{number}.txt": b"Ann left. " * 4_000 for number in range(30)}
    with pytest.raises(FormatError, match="members of at most 800,000 bytes in all"):
        read("a.zip", zip_of(files), max_bytes=50_000)


def test_an_encrypted_member_is_reported(read):
    data = bytearray(zip_of({"a.txt": b"Ann left.", "b.txt": b"Bob came."}))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        at = archive.start_dir
    data[at + 8] |= 1  # the flag in the directory's entry of a.txt
    faults: list[AttarError] = []
    assert [each.text for each in read("a.zip", bytes(data), on_bad=faults.append)] == ["Bob came."]
    assert "a.zip: a.txt is encrypted" in str(faults[0])


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.txt.gz", "a.jsonl.xz"])
@pytest.mark.parametrize(
    "data",
    [b"not an archive", b"", b"\x1f\x8b\x08\0cut", zip_of(FILES)[:50]],
    ids=["text", "empty", "cut gzip", "cut zip"],
)
def test_a_damaged_archive_is_refused_in_one_line(read, name, data):
    with pytest.raises(FormatError) as caught:
        read(name, data)
    assert "\n" not in str(caught.value)


def test_an_archive_without_documents_is_refused(read):
    with pytest.raises(FormatError, match="has no documents"):
        read("a.zip", zip_of({"picture.png": b"\x89PNG\0", "e.eml.bak": eml_of("x")}))


def test_an_archive_is_refused_in_one_line_however_deep_its_fault(read):
    faults: list[AttarError] = []
    inner = zip_of({"deep.docx": b"no DOCX"})
    assert list(read("a.zip", zip_of({"b.zip": inner}), on_bad=faults.append)) == []
    assert [str(fault).partition(" is ")[0] for fault in faults] == ["a.zip: b.zip: deep.docx"]
