"""Files are read in a child process: what one of them does to it is one line, and the others are read."""

import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.documents import workers
from attar.documents.extracted import SourceDocument
from attar.documents.sources import find_files
from attar.documents.workers import FileFault, FileReader, read_sources
from attar.errors import AttarError, FormatError
from attar.options import FileLimits
from attar.progress import StoppedError, stopped_by
from tests.documents.attacks import ATTACHED, ATTACKS
from tests.documents.document_files import read_here

FAULT = msgspec.msgpack.encode(FileFault("of a member"))
LIMITS = FileLimits(max_file_memory_mb=256, max_file_seconds=20, seconds=60)


@pytest.fixture(scope="module")
def reader() -> FileReader:
    with FileReader(LIMITS) as reader:
        yield reader


def texts(documents: list[SourceDocument]) -> list[str]:
    return [document.text for document in documents]


class TestReading:
    def test_documents_are_those_of_reading_in_this_process(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("Ann left.")
        (tmp_path / "b.md").write_text("# Bob\n\nBob *came*.")
        (tmp_path / "c.jsonl").write_text('{"id": "x", "text": "Cy ran."}\n{"id": "y", "text": "Di sat."}\n')
        (tmp_path / "d.html").write_text("<title>Page</title><h1>Ed</h1><p>Ed sang.</p>")
        paths = sorted(tmp_path.iterdir())
        here = [document for path in paths for document in read_here(path.name, path.read_bytes())]
        assert [document._replace(source="") for document in read_sources(paths)] == here
        assert len(here) == 5

    def test_parquet_is_read_after_a_damaged_one(self, tmp_path: Path) -> None:
        (tmp_path / "a.parquet").write_bytes(b"PAR1junk")
        pq.write_table(pa.table({"text": ["Ann left."]}), tmp_path / "b.parquet")
        faults: list[AttarError] = []
        assert texts(read_sources([tmp_path], faults.append)) == ["Ann left."]
        assert len(faults) == 1

    def test_half_of_a_surrogate_pair_is_replaced(self, tmp_path: Path) -> None:
        file = tmp_path / os.fsdecode(b"caf\xe9.json")
        file.write_text('[{"id": "a", "text": "Ann\\ud800 left."}]')
        (document,) = read_sources([tmp_path])
        assert document.text == "Ann\ufffd left."


class TestProcessThatDies:
    """The child is killed in the middle of a file, as the kernel would do it."""

    def files(self, folder: Path) -> list[str]:
        for number in range(5):
            (folder / f"{number}.txt").write_text(f"Document {number}.")
        # 40 MB of lines: the child is still busy when it is killed.
        (folder / "2.jsonl").write_text('{"text": "Ann left the house."}\n' * 200_000)
        return [f"Document {number}." for number in range(5)]

    def test_costs_that_file_only(self, tmp_path: Path) -> None:
        expected = self.files(tmp_path)
        faults: list[AttarError] = []
        with FileReader(LIMITS) as reader:
            found: list[str] = []
            killed = False
            documents = (reader.read(file, faults.append) for file in find_files([tmp_path]).files)
            for document in chain.from_iterable(documents):
                if document.text == "Ann left the house.":
                    if not killed:
                        os.kill(reader.process_id, signal.SIGKILL)
                        killed = True
                else:
                    found.append(document.text)
        assert found == expected
        assert len(faults) == 1
        assert "2.jsonl" in str(faults[0])

    def test_too_much_time_is_one_line(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "slow.txt")
        descriptor = os.open(tmp_path / "slow.txt", os.O_RDWR)  # never ends: nobody closes it
        try:
            with (
                FileReader(FileLimits(seconds=1.0)) as reader,
                pytest.raises(FormatError, match="more than 1 s"),
            ):
                list(reader.read(find_files([tmp_path / "slow.txt"]).files[0]))
        finally:
            os.close(descriptor)

    @pytest.mark.parametrize(
        "message", [bytes(3), len(FAULT).to_bytes(4, "little") + FAULT], ids=["one", "many"]
    )
    def test_messages_without_end_take_no_more_time(self, monkeypatch, message: bytes) -> None:
        send = f"while True: os.write(int(sys.argv[1]), {message!r}); time.sleep({20 if message == bytes(3) else 0.1})"
        monkeypatch.setattr(workers, "_PROGRAM", f"import os, sys, time\n{send}")
        faults: list[AttarError] = []
        with FileReader(FileLimits(seconds=1.0)) as reader:
            assert not list(reader.read_bytes("a.txt", b"Ann left.", on_bad=faults.append))
        assert "more than 1 s" in str(faults[-1])

    def test_what_a_parser_prints_is_not_shown(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(workers, "_PROGRAM", "print('printed')")
        with FileReader(LIMITS) as reader, pytest.raises(FormatError):
            list(reader.read_bytes("a.txt", b"Ann left."))
        assert "printed" not in capfd.readouterr().out

    def test_nonsense_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nested = r"b'\x82\xa7message\xa1x\xa1x' + b'\x91' * 10_000 + b'\x01'"
        send = f"import os, sys; data = {nested}; os.write(int(sys.argv[1]), len(data).to_bytes(4, 'little') + data)"
        monkeypatch.setattr(workers, "_PROGRAM", send)
        with (
            FileReader(LIMITS) as reader,
            pytest.raises(FormatError, match="the process that reads it failed"),
        ):
            list(reader.read_bytes("a.txt", b"Ann left."))

    def test_stopped_work_ends_the_child(self) -> None:
        stops = iter([False, False, True])
        with FileReader(LIMITS) as reader, stopped_by(lambda: next(stops)), pytest.raises(StoppedError):
            list(reader.read_bytes("a.md", b"[" * 400_000))
        assert reader.process_id is None

    @pytest.mark.parametrize("name", ["a.doc", "a.png"])
    def test_a_stop_while_another_program_reads_is_no_bad_file(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        def stopped(*given: object) -> None:
            raise StoppedError("the work was stopped")

        monkeypatch.setattr(workers, "has_office", lambda: True)
        monkeypatch.setattr(workers, "convert", stopped)
        monkeypatch.setattr(workers, "recognise", stopped)
        faults: list[AttarError] = []
        with FileReader(LIMITS) as reader, pytest.raises(StoppedError):
            list(reader.read_bytes(name, b"data", on_bad=faults.append))
        assert not faults

    def test_too_much_cpu_time_is_one_line(self) -> None:
        with (
            FileReader(FileLimits(max_file_seconds=1, seconds=60)) as reader,
            pytest.raises(FormatError, match="CPU time"),
        ):
            list(reader.read_bytes("a.md", b"[" * 400_000))

    def test_too_much_memory_is_one_line(self) -> None:
        text = b"[" + b"[1]," * 8_000_000 + b"1]"
        limits = FileLimits(max_file_memory_mb=64)
        with FileReader(limits) as reader, pytest.raises(FormatError, match="more than 64 MB of memory"):
            list(reader.read_bytes("a.json", text))
        with FileReader(limits) as reader:
            assert texts(list(reader.read_bytes("a.txt", b"Ann left."))) == ["Ann left."]


class TestAttacks:
    @pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
    def test_the_text_is_read_to_its_end_within_the_limits(self, attack, reader: FileReader) -> None:
        (document,) = reader.read_bytes(attack.file_name, attack.make())
        assert document.text.endswith(attack.last_words)

    @pytest.mark.parametrize("make", ATTACHED.values(), ids=ATTACHED)
    def test_headers_of_attached_files_are_cut(self, make: Callable[[], bytes], reader: FileReader) -> None:
        document, *_ = reader.read_bytes("a.eml", make())
        assert "\n\nhi\n\nAttachments: " in document.text

    def test_what_is_left_out_is_said(self) -> None:
        (document,) = read_here("a.eml", ATTACKS["200,000 recipients"].make())
        assert document.incomplete == "a part of its headers"

    def test_pictures_of_pages_are_bounded_together(self) -> None:
        """A page takes a hundred bytes, if all show the same picture: a server would get gigabytes to recognise."""
        from fpdf import FPDF
        from PIL import Image

        picture = io.BytesIO()
        Image.frombytes("L", (600, 600), random.Random(0).randbytes(360_000)).save(picture, "PNG")
        pages = FPDF()
        for _ in range(3):
            pages.add_page()
            pages.image(picture, 0, 0, 200)
        too_much = pytest.raises(FormatError, match="at most 1,048,576 bytes when decompressed")
        with FileReader(FileLimits(max_decompressed=2**20)) as reader, too_much:
            list(reader.read_bytes("a.pdf", bytes(pages.output())))


class TestConfinement:
    """What a parser with a hole could be made to do, done in the child."""

    @pytest.mark.parametrize(
        ("action", "allowed"),
        [
            ("open('/etc/hostname')", False),
            ("open('/tmp/attar-written', 'w')", False),
            ("__import__('socket').create_connection(('127.0.0.1', 9))", False),
            ("__import__('os').system('true')", False),
            ("__import__('subprocess').run(['true'])", False),
            ("__import__('os').remove('/tmp/attar-written')", False),
            ("__import__('json').loads('1')", True),
        ],
    )
    def test_actions(self, action: str, allowed: bool) -> None:
        program = f"from attar.documents.workers import confine; confine(); {action}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert ("PermissionError: a file that is being read" in done.stderr) != allowed
        assert (done.returncode == 0) == allowed
