"""The messages on the page of troubleshooting are those of the software: produced here, or found in its code."""

import re
import socket
from pathlib import Path

import pytest

from attar.cli.main import main
from attar.errors import AttarError
from attar.server.run import listen
from attar.server.settings import Address
from benchmarks.document_files import pdf_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
# The first cell of a row, as far as it is code: a message, if it has a comma or a colon in it.
CELLS = re.findall(r"^\| (?:503, )?`([^`]+)`[^|]* \|", PAGE, re.M)
MESSAGES = [cell for cell in CELLS if re.search(r"[,:] ", cell)]
# Those that a test below leads to, but for two that have tests of their own; the rest must stand in the code.
ELSEWHERE = ("at most … bytes when decompressed", "none such in the package")
SECTIONS = PAGE.split("\n## ")
PRODUCED = [
    message
    for message in MESSAGES
    if (message in SECTIONS[2] or message in SECTIONS[3]) and not any(part in message for part in ELSEWHERE)
]
IN_THE_CODE = [
    message
    for message in MESSAGES
    if message not in PRODUCED and message != "attar: command not found" and not message.startswith("address")
]
SOURCES = [
    file.read_text(encoding="utf-8")
    for file in [*(ROOT / "attar").rglob("*.py"), ROOT / "Makefile", ROOT / "tests/server/page/conftest.py"]
]


def pattern_of(message: str) -> re.Pattern[str]:
    """A message of the page, with anything for each `…`."""
    return re.compile(".*".join(map(re.escape, message.split("…"))))


def pieces_of(message: str) -> list[str]:
    """The parts of a message that stand in the code as they are."""
    extra = re.search(r"pip install '\.\[(\w+)\]'", message)
    rest = re.sub(r"; pip install .*", "", message)
    parts = re.split(r"…|expected |, got |[;,:] ", rest)
    pieces = [part.strip(" ,;:'") for part in parts]
    return [piece for piece in pieces if len(piece) > 2] + (
        [f'install_command("{extra[1]}")'] if extra else []
    )


def is_in_the_code(message: str) -> bool:
    """Whether one file of the code has all parts of a message."""
    pieces = pieces_of(message)
    return bool(pieces) and any(all(piece in source for piece in pieces) for source in SOURCES)


def test_the_page_has_messages():
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("message", IN_THE_CODE)
def test_a_message_of_the_page_is_in_the_code(message):
    assert is_in_the_code(message), pieces_of(message)


def test_a_message_that_nothing_prints_is_found_out():
    assert not is_in_the_code("store …: expected a store of gold, got no such folder")


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What `attar` prints on stderr, in a folder with a library and files that cannot be added to it."""
    monkeypatch.chdir(tmp_path)
    files = {
        "letter.txt": b"Ann lives in Dover.",
        "old.doc": b"x",
        "cut.pdf": b"%PDF-1.4\n",
        "scan.pdf": pdf_of([""]),
        "secret.pdf": pdf_of(["Ann lives in Dover."], password="x"),
        "odd.txt": b"\xff\xfeA\x00\x00\xd8B",
        "program.txt": bytes(range(256)) * 8,
    }
    for name, data in files.items():
        Path(name).write_bytes(data)
    Path("pictures").mkdir()
    Path("pictures/a.png").write_bytes(b"\x89PNG")

    def run(*words: str) -> str:
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["attar", *words])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().err

    run("add", "library", "letter.txt", "--reader", "names")
    return run


@pytest.mark.slow
def test_messages_of_the_command_line_are_printed_as_the_page_says(said):
    """Those that files, names and readers lead to."""
    printed = [
        said("add", "library", "old.doc", "cut.pdf", "scan.pdf", "secret.pdf", "odd.txt", "program.txt"),
        said("add", "library", "pictures"),
        said("add", "library", "odd.txt", "--name", "letter"),
        said("add", "pictures", "letter.txt"),
        said("ask", "nowhere", "letter", "Who?"),
        said("ask", "library", "lettre", "Who?"),
        said("list", "library"),
        said("ask", "library", "letter", "Who lives in Dover?", "--reader", "answers"),
        said("serve", "library", "--host", "0.0.0.0"),
    ]
    Path("other.txt").write_text("Bob lives in Rome.")
    printed.append(said("add", "library", "other.txt", "--name", "letter"))
    lines = [line.removeprefix("attar: ") for each in printed for line in each.splitlines()]
    missing = [
        each for each in PRODUCED if not any(pattern_of(plain(each)).fullmatch(line) for line in lines)
    ]
    assert missing == [], lines


def plain(message: str) -> str:
    """Without the name of the program, which the command line puts in front."""
    return message.removeprefix("attar: ")


def test_an_address_in_use_is_reported_as_the_page_says():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(AttarError) as refused:
        listen(Address(port=taken.getsockname()[1]))
    (message,) = (each for each in MESSAGES if each.startswith("address"))
    assert pattern_of(message).fullmatch(str(refused.value))
