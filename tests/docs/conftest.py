"""The pages of the documentation, cut into what can be checked: fenced blocks, and code within sentences."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {ROOT / "docs" / "cli.md", *ROOT.glob("docs/api/*.md")}
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - GENERATED)

# A block, and the comment before it: that it is not run, or the command whose prompt it shows.
FENCE = re.compile(
    r"^(?:<!-- (?:parsed, not run: (?P<why>[^\n]+)|prompt: (?P<prompt>[^\n]+)) -->\n)?"
    r"```(?P<kind>[^\n]*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block: `sh`, `python`, `text`, `json`, or nothing for commands that are shown and not run."""

    kind: str
    code: str
    run: bool
    follows: bool  # directly after another block: what that one prints
    prompt: str = ""  # the command whose prompt is shown, with what is typed there

    @property
    def lines(self) -> list[str]:
        """The block's lines; a line that ends in a backslash is joined to the next."""
        return self.code.replace("\\\n", " ").splitlines()


@dataclass(frozen=True)
class Page:
    path: Path
    text: str
    blocks: list[Block]
    spans: list[str]  # `code` within sentences

    @classmethod
    def read(cls, path: Path) -> "Page":
        text = path.read_text(encoding="utf-8")
        blocks, end = [], None
        for match in FENCE.finditer(text):
            follows = end is not None and not text[end : match.start()].strip()
            blocks.append(
                Block(match["kind"], match["code"], match["why"] is None, follows, match["prompt"] or "")
            )
            end = match.end()
        return cls(path, text, blocks, SPAN.findall(FENCE.sub("", text)))


@pytest.fixture(params=PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def page(request: pytest.FixtureRequest) -> Page:
    """Each page in turn."""
    return Page.read(request.param)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
