"""What the pages show is what happens: their commands and their Python run in order, and print what is shown.

Blocks of `sh` and `python` run in a folder of small files. A block of `text` directly after one is what it prints,
probabilities within two points; on stderr, if the line says `# exit code 2`. In a block after
`<!-- prompt: command -->`, what follows a prompt is typed. Blocks after `<!-- parsed, not run: why -->` are only
checked by `test_commands.py`, as is every program other than `attar` and `curl`.
"""

import argparse
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from attar.cli.ask import Asking
from attar.cli.main import main
from attar.cli.prompt import run_prompt
from attar.library.library import Library
from tests.docs.conftest import ROOT, Block, Page
from tests.running import Running

# Pages that a new user follows from top to bottom; the others have commands that take minutes.
FOLLOWED = ["README.md", "docs/index.md", "docs/tutorial.md", "docs/guide.md", "docs/serving.md"]
FOLLOWED += ["docs/operations.md", "docs/mechanisms.md", "docs/bank.md"]
FILES = {
    "letters.txt": "Bob Hale wrote to Ann in May. He asked her to come to Bath.\n"
    "Ann lives in Dover with her sister Clara Finch.\nIn June Ann married Bob in the old church at Bath.\n",
    "july.txt": "In July Ann and Bob moved to Leeds.",
    "notes/today.txt": "Clara Finch met Tobias in Dover. Tobias sails to Norway in August.",
    "notes/post.txt": "Ann sent Clara Finch a letter from Bath.",
    "old.pages": "Not a format that is read.",
    "questions.txt": "Who wrote to Ann?\nWhere does Ann live?\n",
}
PORT = "8000"  # on the pages; a free one takes its place
CURL = argparse.ArgumentParser("curl")
CURL.add_argument("url")
CURL.add_argument("-X", dest="method")
CURL.add_argument("-H", dest="headers", action="append", default=[])
CURL.add_argument("-d", dest="body")
CURL.add_argument("-F", dest="fields", action="append", default=[])
# A probability, or the score of a search.
SCORE = re.compile(r"\d+%|\d+\.\d+")
# A line of a prompt: "all> Who left?".
TYPED = re.compile(r"^[\w.]+> (.+)$", re.M)

pytestmark = [pytest.mark.usefixtures("unchecked_shapes"), pytest.mark.slow]


class Session:
    """A person at a terminal who does what a page says."""

    def __init__(self, run_attar: Callable[[list[str], int], None]) -> None:
        self.run_attar = run_attar
        self.namespace: dict[str, object] = {}
        self.server: Running | None = None
        self.port = PORT

    def steps(self, block: Block) -> list[tuple[Callable[[str], None], str]]:
        """What to do with a block, in order."""
        if not block.run:
            return []
        if block.prompt:
            return [(self.prompt, block.code)]
        if block.kind == "python":
            return [(self.python, block.code)]
        return [(self.shell, line) for line in block.lines] if block.kind == "sh" else []

    def python(self, code: str) -> None:
        exec(compile(code.replace(f":{PORT}", f":{self.port}"), "page", "exec"), self.namespace)

    def shell(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        program = words[0].removeprefix(".venv/bin/") if words else ""
        if program == "curl":
            self.curl(words[1:])
        elif program == "attar" and words[1] == "serve":
            self.serve(words[2:])
        elif program == "attar":
            code = re.search(r"# exit code (\d)", line)
            self.run_attar(words[1:], int(code[1]) if code else 0)

    def prompt(self, shown: str) -> None:
        """Type what a block shows after its prompts, and print prompts and lines as a terminal does."""
        typed = iter(TYPED.findall(shown))

        def read_line(prompt: str) -> str:
            line = next(typed)
            print(prompt + line)
            return line

        with Library("library", read_only=True) as library:
            run_prompt(Asking(library, None, top=1), read_line)

    def serve(self, words: list[str]) -> None:
        """Start a server at a free port, and wait until it answers."""
        self.server = Running("serve", *words, "--port", 0)
        self.server.wait_for("startup complete")
        self.port = self.server.url.rpartition(":")[2]

    def curl(self, words: list[str]) -> None:
        """Send what curl would send; as much of curl as the pages use."""
        sent = CURL.parse_args(words)
        files = [
            (field, (path, Path(path).read_bytes()))
            for field, path in (written.split("=@") for written in sent.fields)
        ]
        answer = httpx.request(
            sent.method or ("POST" if sent.body or files else "GET"),
            sent.url.replace(PORT, self.port),
            headers=dict(header.split(": ") for header in sent.headers),
            content=sent.body,
            files=files or None,
            timeout=60,
        )
        assert answer.is_success, answer.text
        print(answer.text)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session in a folder with the files that the pages use."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / "examples" / "papers", tmp_path / "examples" / "papers")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run_attar(words: list[str], code: int) -> None:
        monkeypatch.setattr(sys, "argv", ["attar", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code, words

    opened = Session(run_attar)
    yield opened
    if opened.server is not None:
        assert opened.server.stop() in (0, -15)


@pytest.mark.parametrize("path", FOLLOWED)
def test_what_a_page_shows_runs_and_prints_what_it_says(path, session, capsys):
    printed = ""
    for block in Page.read(ROOT / path).blocks:
        if block.kind == "text" and block.follows and not block.prompt:
            assert_same(printed, block.code)
        for do, code in session.steps(block):
            capsys.readouterr()
            do(code)
            out, err = capsys.readouterr()
            printed = err if "# exit code" in code else out
            if block.prompt:
                assert_same(printed, block.code)


def assert_same(printed: str, shown: str) -> None:
    """Word by word; probabilities and scores may differ a little between processors."""
    expected = [pytest.approx(word, abs=2) if isinstance(word, float) else word for word in words_of(shown)]
    assert words_of(printed) == expected


def words_of(printed: str) -> list[str | float]:
    return [float(word.rstrip("%")) if SCORE.fullmatch(word) else word for word in printed.split()]
