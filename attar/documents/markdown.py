"""Markdown: markup removed, headings kept."""

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attar.documents.extracted import Blob, Extracted, TextBuilder, parsing
from attar.documents.plain import decode_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

# What some programs write before the text: lines of "key: value" between two lines of dashes.
_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?\n)---[^\S\n]*(?:\n|\Z)", re.S)
_FRONT_LINE = re.compile(r"^(title|date)[^\S\n]*:[^\S\n]*(.+)$", re.M | re.I)
# A comment ends before the next one begins: to look for the end of each from its beginning would be quadratic.
_TAG = re.compile(r"<!--(?:(?!<!--|-->).)*-->|</?[A-Za-z][^<>]*>", re.S)
# Lists and quotes nested deeper than this are read as plain text: Python's stack is not deeper.
_DEEPEST = 100
_TOO_DEEP = "too deep"


def read_markdown(blob: Blob) -> Iterator[Extracted]:
    """A Markdown file without its markup; the front matter gives title and date."""
    text = decode_text(blob.data(), blob.where).replace("\r\n", "\n")
    front = _FRONT.match(text)
    facts = (
        {key.lower(): value.strip("\"' ") for key, value in _FRONT_LINE.findall(front[1])} if front else {}
    )
    with parsing(blob.where, "Markdown"):
        from markdown_it import MarkdownIt

        body = text[front.end() :] if front else text
        parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable("table")
        parser.block.ruler.before("table", "depth", _note_depth)
        notes = {_TOO_DEEP: False}
        tokens = parser.parse(body, notes)
        builder = TextBuilder()
        if notes[_TOO_DEEP]:
            first = ""
            for paragraph in body.split("\n\n"):
                builder.add(paragraph)
        else:
            first = _add_blocks(builder, tokens)
    yield builder.build(facts.get("title", first), facts.get("date", ""))


def _note_depth(state: "StateBlock", first_line: int, last_line: int, silent: bool) -> bool:
    """A rule that matches nothing: it sees how deep the parser is, which drops what is too deep without a word."""
    if state.level >= _DEEPEST - 2:
        state.env[_TOO_DEEP] = True
    return False


def _add_blocks(builder: TextBuilder, tokens: "Sequence[Token]") -> str:
    """Add paragraphs, headings and tables in order; return the first heading."""
    first, rows = "", list[list[str]]()
    inside = ""
    for token in tokens:
        if token.type in ("heading_open", "th_open", "td_open", "tr_open", "table_open"):
            inside = token.type
            if inside == "tr_open":
                rows.append([])
        elif token.type == "table_close":
            builder.table(rows, header=True)
            rows, inside = [], ""
        elif token.type == "heading_close":
            inside = ""
        elif token.type == "inline":
            text = _inline(token.children or [])
            if inside == "heading_open":
                builder.heading(text)
                first = first or text
            elif rows:
                rows[-1].append(text)
            else:
                builder.add(text)
        elif token.type in ("fence", "code_block"):
            builder.add(token.content)
        elif token.type == "html_block":
            builder.add(html.unescape(_TAG.sub(" ", token.content)))
    return first


def _inline(tokens: "Sequence[Token]") -> str:
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline", "image"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "html_inline" and not _TAG.fullmatch(token.content):
            parts.append(token.content)
    return "".join(parts)
