"""Targets: files of documents, whole or with parts changed (bytes, members of archives, the XML in them), and attacks.

They are read through the child process, sent to a server, and named on the command line.
"""

import gzip
import io
import json
import lzma
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from attar.documents.extracted import SourceDocument
from attar.documents.workers import FileReader
from attar.options import FileLimits
from benchmarks.fuzz.http import Server, checked_server
from benchmarks.fuzz.mutations import json_values, mutated_bytes, texts
from benchmarks.fuzz.target import Target, one_line
from benchmarks.tiny_reader import save_tiny_reader
from tests.documents import document_files as made
from tests.documents.attacks import ATTACKS

_TEXT = "# One\n\nAnn Lee met Bob Ray in Bath.\n\n# Two\n\nThe rent is 900 pounds, due on 4 March."
# What one file may take: far more than any of these, far less than what a bomb would.
_LIMITS = FileLimits(max_file_memory_mb=512, max_file_seconds=20, seconds=300, max_decompressed=2**22)
# Bytes of an attack that is worth changing a few thousand times.
_SMALL = 200_000


def originals() -> dict[str, bytes]:
    table = [["name", "age", "town"], ["Ann", "34", "Bath"], ["Bob", "40", "York"]]
    mail = made.eml_of(_TEXT + "\n\n> quoted\n\n--\nAnn", attached=["plan.pdf"])
    rows = "\n".join(",".join(row) for row in table).encode()
    parquet = io.BytesIO()
    pq.write_table(pa.table({"id": ["x", "y"], "text": ["Ann left.", "Bob left."]}), parquet)
    return {
        "a.parquet": parquet.getvalue(),
        "a.jsonl": b'{"id": "x", "text": "Ann left."}\n{"id": "y", "text": "Bob left.", "title": "Bob"}\n',
        "a.pdf": made.pdf_of([_TEXT, _TEXT], title="Rent"),
        "a.docx": made.docx_of(_TEXT, table=table, title="Rent"),
        "a.xlsx": made.xlsx_of({"One": table, "Two": table}),
        "a.epub": made.epub_of([_TEXT, _TEXT]),
        "a.html": made.html_of(_TEXT, title="Rent", around=True),
        "a.eml": mail,
        "a.mbox": made.mbox_of([mail, mail]),
        "a.md": _TEXT.encode() + b"\n\n| a | b |\n|---|---|\n| 1 | *2* |\n",
        "a.csv": rows,
        "a.json": b'{"name": "Ann", "list": [{"a": 1}, {"b": [2, null]}]}',
        "a.zip": made.zip_of({"x/a.txt": b"Ann left.", "b.csv": rows, "c.zip": made.zip_of({"d.eml": mail})}),
        "a.tar.gz": made.tar_of({"x/a.txt": b"Ann left.", "b.html": made.html_of(_TEXT)}, "gz"),
        "a.txt.gz": gzip.compress(_TEXT.encode()),
        "a.jsonl.xz": lzma.compress(b'{"id": "x", "text": "Ann left."}\n'),
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
    return made.zip_of(files)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Names and contents of files: originals and attacks, changed; other bytes; and one kind's as another's."""
    attacks = [(attack.file_name, attack.make()) for attack in ATTACKS.values()]
    known = [*originals().items(), *(attack for attack in attacks if len(attack[1]) < _SMALL)]
    names = st.sampled_from([name for name, _ in known])
    changed = st.sampled_from(known).flatmap(lambda file: st.tuples(st.just(file[0]), _changed(file[1])))
    odd = st.tuples(
        names, texts.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60)
    )
    exchanged = st.tuples(names, st.sampled_from([data for _, data in known]))
    row = texts.map(lambda text: {"text": text, "id": text[:9]}) | json_values
    rows = st.lists(row.map(lambda value: json.dumps(value).encode()), max_size=4).map(b"\n".join)
    lines = st.tuples(st.just("a.jsonl"), rows | rows.flatmap(mutated_bytes))
    packed = lines.map(lambda file: (f"{file[0]}.xz", lzma.compress(file[1], preset=0)))
    return changed | changed | changed | odd | exchanged | lines | packed


@contextmanager
def documents_target(folder: Path) -> Iterator[Target]:
    """Files through the child process: read or refused in one line, with parts in the text; the child stays alive."""
    with FileReader(_LIMITS) as reader:

        def read(name: str, data: bytes) -> None:
            for found in reader.read_bytes(name, data, on_bad=one_line):
                _check_document(found)

        for file in originals().items():
            read(*file)

        def check(example: tuple[str, bytes]) -> None:
            before = reader.process_id
            read(*example)
            if reader.process_id != before:
                raise AssertionError("the process that reads files has ended")

        yield Target(files(), check)


def _check_document(found: SourceDocument) -> None:
    found.text.encode()
    starts = [start for start, _ in found.parts]
    if starts != sorted(starts) or not all(0 <= start < len(found.text) for start in starts):
        raise AssertionError(f"parts outside of the text: {starts[:9]} of {len(found.text)}")
    if not (found.name and isinstance(found.title, str) and isinstance(found.date, str)):
        raise AssertionError(f"a document without a name, title or date: {found[:2]}")
    for label in (found.title, *(label for _, label in found.parts)):
        if "\n" in label or len(label) > 200:
            raise AssertionError(f"a label of {len(label)} characters or several lines")


def _show_and_remove(server: Server, changes: list[dict[str, Any]]) -> None:
    """Show and remove what was added; a file may have two documents of one name, which replace each other."""
    for name in {change["name"] for change in changes}:
        path = f"/v1/documents/{quote(name, safe='')}"
        if server.answer("GET", path)["name"] != name:
            raise AssertionError(f"{path} shows another document")
        server.answer("DELETE", path)


@contextmanager
def uploads_target(folder: Path) -> Iterator[Target]:
    """Files sent to a live server: no 5xx but 503, and what was added can be listed, shown and removed.

    One is answered at once; several are added by jobs, which are looked at and cancelled meanwhile: each ends, and
    tells what it has added.
    """
    with checked_server(folder) as server:

        def check(example: tuple[list[tuple[tuple[str, bytes], str]], list[tuple[str, int]]]) -> None:
            sent, looks = example
            paths, changes = [], []
            header = "Prefer: respond-async" if len(sent) > 1 else "Accept: */*"
            for (name, data), source in sent:
                path = f"/v1/files?name={name}&replace=1&source={quote(source, safe='')}"
                answer = server.answer("POST", path, data, header)
                changes += answer.get("changes", [])
                paths += [f"/v1/jobs/{answer['id']}"] if "id" in answer else []
            for method, at in looks if paths else []:
                server.answer(method, paths[at % len(paths)])
            _show_and_remove(
                server, changes + [c for path in paths for c in _ended(server, path).get("changes", [])]
            )

        sources = texts.map(_argument)
        looks = st.tuples(st.sampled_from(["GET", "DELETE"]), st.integers(0, 9))
        several = st.lists(st.tuples(files(), sources), min_size=1, max_size=4)
        yield Target(st.tuples(several, st.lists(looks, max_size=6)), check)


def _ended(server: Server, path: str) -> dict[str, Any]:
    """A job, once it has ended."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        job = server.answer("GET", path)
        if job["state"] not in ("waiting", "running"):
            if job.get("problem", {}).get("status", 0) >= 500:
                raise AssertionError(f"a job failed: {job['problem']}")
            return job
        time.sleep(0.01)
    raise AssertionError(f"a job does not end: {job}")


@contextmanager
def command_target(folder: Path) -> Iterator[Target]:
    """`attar add` and what follows it: exit code 0 or 2, one line per fault, and no traceback."""
    reader, store = save_tiny_reader(folder / "reader"), folder / "store"

    def run(*words: object) -> None:
        command = [sys.executable, "-m", "attar", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, errors="replace")
        lines = done.stderr.splitlines()
        if done.returncode not in (0, 2) or not all(line.startswith("attar: ") for line in lines):
            raise AssertionError(
                f"exit code {done.returncode}: {done.stdout[-200:]!r} {done.stderr[-900:]!r}"
            )

    def check(example: tuple[tuple[str, bytes], str]) -> None:
        (name, data), question = example
        shutil.rmtree(store, ignore_errors=True)
        (folder / name).write_bytes(data)
        run("add", store, folder / name, "--reader", reader)
        if store.exists():
            run("list", store)
            run("ask", store, "--reader", reader, "--", question.replace("\0", "") or "?")

    yield Target(st.tuples(files(), texts.map(_argument)), check)


def _argument(text: str) -> str:
    """What a terminal can pass on."""
    return text[:500].replace("\0", "").encode(errors="replace").decode()
