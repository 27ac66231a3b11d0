"""Target: files of documents, whole or with parts changed: bytes, members of archives, and the XML in them."""

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from attar.documents.sources import find_files, read_source_file
from attar.errors import AttarError
from benchmarks.document_files import (
    docx_of,
    eml_of,
    epub_of,
    html_of,
    mbox_of,
    pdf_of,
    tar_of,
    xlsx_of,
    zip_of,
)
from benchmarks.fuzz.mutations import mutated_bytes, texts
from benchmarks.fuzz.target import Target, in_fork, refused

_TEXT = "# One\n\nAnn Lee met Bob Ray in Bath.\n\n# Two\n\nThe rent is 900 pounds, due on 4 March."
# What one file may become; far more than any of these, far less than what a bomb would take.
_MAX_BYTES = 2**22


def _originals() -> dict[str, bytes]:
    table = [["name", "age", "town"], ["Ann", "34", "Bath"], ["Bob", "40", "York"]]
    mail = eml_of(_TEXT + "\n\n> quoted\n\n--\nAnn", attached=["plan.pdf"])
    rows = "\n".join(",".join(row) for row in table).encode()
    return {
        "a.pdf": pdf_of([_TEXT, _TEXT], title="Rent"),
        "a.docx": docx_of(_TEXT, table=table, title="Rent"),
        "a.xlsx": xlsx_of({"One": table, "Two": table}),
        "a.epub": epub_of([_TEXT, _TEXT]),
        "a.html": html_of(_TEXT, title="Rent", around=True),
        "a.eml": mail,
        "a.mbox": mbox_of([mail, mail]),
        "a.md": _TEXT.encode() + b"\n\n| a | b |\n|---|---|\n| 1 | *2* |\n",
        "a.csv": rows,
        "a.json": b'{"name": "Ann", "list": [{"a": 1}, {"b": [2, null]}]}',
        "a.zip": zip_of({"x/a.txt": b"Ann left.", "b.csv": rows, "c.zip": zip_of({"d.eml": mail})}),
        "a.tar.gz": tar_of({"x/a.txt": b"Ann left.", "b.html": html_of(_TEXT)}, "gz"),
        "a.txt.gz": gzip.compress(_TEXT.encode()),
        "a.txt": _TEXT.encode("utf-16"),
    }


@st.composite
def _changed(draw: st.DrawFn, data: bytes) -> bytes:
    """A file with some bytes changed; of an archive, perhaps those of a member, in a whole archive."""
    if data[:2] != b"PK" or draw(st.booleans()):
        return draw(mutated_bytes(data))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(files)))
    change = draw(st.sampled_from(["bytes", "bytes", "remove", "empty", "rename", "entities"]))
    if change == "bytes":
        files[name] = draw(mutated_bytes(files[name])) if files[name] else b"x"
    elif change == "entities":
        entities = b'<!DOCTYPE a [<!ENTITY x "xxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]>'
        head, end, rest = files[name].partition(b"?>")
        files[name] = head + end + entities + rest.replace(b">A", b">&y;A")
    elif change == "empty":
        files[name] = b""
    else:
        content = files.pop(name)
        if change == "rename":
            files["../" + name] = content
    return zip_of(files)


@contextmanager
def documents_target(folder: Path) -> Iterator[Target]:
    """Documents of many kinds: read or refused in one line, with parts that lie in the text, in bounded time."""
    folder.mkdir(exist_ok=True)
    originals = _originals()

    def read(path: Path) -> None:
        def bad(fault: AttarError) -> None:
            with refused():
                raise fault

        (file,) = find_files([path]).files
        for found in read_source_file(file, _MAX_BYTES, bad):
            found.text.encode()
            starts = [start for start, _ in found.parts]
            if starts != sorted(starts) or not all(0 <= start < len(found.text) for start in starts):
                raise AssertionError(f"parts outside of the text: {starts[:9]} of {len(found.text)}")
            if not (found.name and isinstance(found.title, str) and isinstance(found.date, str)):
                raise AssertionError(f"a document without a name, title or date: {found[:2]}")
            for label in (found.title, *(label for _, label in found.parts)):
                if "\n" in label or len(label) > 200:
                    raise AssertionError(f"a label of {len(label)} characters or several lines")

    for name, data in originals.items():  # also imports what every fork would
        (folder / name).write_bytes(data)
        read(folder / name)

    def check(example: tuple[str, bytes]) -> None:
        name, data = example
        path = folder / name
        path.write_bytes(data)
        in_fork(lambda: read(path))

    names = st.sampled_from(sorted(originals))
    changed = names.flatmap(lambda name: st.tuples(st.just(name), _changed(originals[name])))
    odd = st.tuples(
        names, texts.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60)
    )
    exchanged = st.tuples(names, names.map(originals.__getitem__))
    yield Target(changed | changed | changed | odd | exchanged, check)
