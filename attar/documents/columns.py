"""Tables in columns of spaces, as texts and PDF have them, as rows of sentences; blocks that stand side by side."""

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attar.documents.tables import DIGIT, NUMBER, names_columns, row_texts

# "Ann Lee          Invoice date: 3 May" are two lines next to each other.
_BESIDE = re.compile(r"\S[^\S\n]{3,}(?=[^\W_][^\s:]*(?: [^\s:]+){0,3}:(?:\s|\Z))")
# Words with one space between them.
_CELL = re.compile(r"\S+(?:[^\S\n\t]\S+)*")
_GAPS = re.compile(r"\S(?:[^\S\n]{2,}|\t[^\S\n]*)(?=\S)")
_RULE = re.compile(r"(?=[\s\-=_+|─━═]*[\-=_─━═]{3})[\s\-=_+|─━═]*")
# "Beard trim ........ 11.50"
_LEADERS = re.compile(r"(?<=\w)[^\S\n]*(?:\.{4,}|[…·]{2,})[^\S\n]*(?=\S)")
# The most lines of a row.
_LINES = 4
# The gaps of the smallest table in columns of spaces.
_FEWEST_GAPS = 4
_MAX_COLUMNS = 1_000
# Also empty ones: a line of two words can be a row of a thousand columns.
_MAX_CELLS = 2_000_000


class _Cell(NamedTuple):
    start: int
    end: int
    text: str


def with_tables(text: str) -> Iterator[str]:
    r"""The parts of a text, its tables in columns of spaces as rows of sentences.

    >>> list(with_tables("Item   Price  Size\nDesk     120  large\nLamp      35\n\nVAT   20%"))
    ['The price of Desk is 120. The size of Desk is large.', 'The price of Lamp is 35.', 'VAT   20%']
    """
    text = _LEADERS.sub(": ", text)
    if len(_GAPS.findall(text)) < _FEWEST_GAPS:
        yield text
        return
    lines = _beside(text.split("\n"))
    cells = [_cells(line) for line in lines]
    numbered = _numbered(lines, cells)
    waiting: list[str] = []
    at = 0
    while at < len(lines):
        rows, end = _table_at(lines, cells, numbered, at)
        if rows:
            if any(map(str.strip, waiting)):
                yield "\n".join(waiting).strip("\n")
            waiting = []
            yield from (row.text for row in row_texts(rows, header=True))
            at = end
        else:
            waiting.append(lines[at])
            at += 1
    if any(map(str.strip, waiting)):
        yield "\n".join(waiting).strip("\n")


def _beside(lines: list[str]) -> list[str]:
    r"""Lines with a block of labels that stands beside others below these, and blocks under labels each on one line.

    >>> _beside(["Bill to:   Invoice no.: 7", "Ann Lee    Date: 3 May", "", "Thanks"])
    ['Bill to:', 'Ann Lee', '', 'Invoice no.: 7', 'Date: 3 May', '', 'Thanks']
    >>> _beside(["Bill to:      Ship to:", "Ann Lee       Bob Ray", "Mill Street   The Forge"])
    ['Bill to: Ann Lee, Mill Street', '', 'Ship to: Bob Ray, The Forge', '']
    """
    kept: list[str] = []
    at = 0
    while at < len(lines):
        if blocks := _blocks(lines, at):
            kept += [line for block in blocks for line in (block, "")]
            at = next((end for end in range(at, len(lines)) if not lines[end].strip()), len(lines))
            continue
        column, last = _label_column(lines[at]), at + 1
        while column and last < len(lines) and _label_column(lines[last]) == column:
            last += 1
        if last > at + 1:
            kept += [line[:column].rstrip() for line in lines[at:last]]
            kept += ["", *(line[column:] for line in lines[at:last])]
            kept += [""] * (last < len(lines) and bool(lines[last].strip()))
        else:
            kept.append(lines[at])
        at = last
    return kept


def _blocks(lines: Sequence[str], first: int) -> list[str]:
    """Labels that stand beside each other in a line, each with the lines below it; none if other things are there."""
    labels = _cells(lines[first])
    if len(labels) < 2 or not all(label.text.endswith(":") for label in labels):
        return []
    below: list[list[_Cell]] = []
    for cells in itertools.takewhile(bool, (_cells(lines[at]) for at in range(first + 1, len(lines)))):
        if len(cells) > len(labels) or any(":" in cell.text for cell in cells):
            return []
        below.append(cells)
    if not below:
        return []
    columns = zip(*(_aligned(cells, labels) for cells in below), strict=True)
    return [
        f"{label.text} {', '.join(filter(None, column))}".rstrip()
        for label, column in zip(labels, columns, strict=True)
    ]


def _label_column(line: str) -> int:
    """Where a label stands in a line after something else; 0 if none does."""
    found = _BESIDE.search(line)
    return found.end() if found else 0


def _cells(line: str) -> list[_Cell]:
    return [_Cell(*cell.span(), cell[0]) for cell in _CELL.finditer(line)]


def _numbered(lines: Sequence[str], cells: Sequence[Sequence[_Cell]]) -> list[bool]:
    """Whether a table may have rows from each line on: those of a table without a number need not be read again.

    A line of one cell ends a table, if its rows are not paragraphs: not where the first of them is blank.
    """
    numbered, is_found = [False], False
    for line, row in zip(reversed(lines), reversed(cells), strict=True):
        if len(row) > 1 or (row and not _RULE.fullmatch(line)):
            has_number = is_found or any(DIGIT(cell.text) or NUMBER.fullmatch(cell.text) for cell in row)
            is_found = len(row) > 1 and has_number
        numbered.append(is_found or not row)
    return numbered[::-1]


def _table_at(
    lines: Sequence[str], cells: Sequence[Sequence[_Cell]], numbered: Sequence[bool], first: int
) -> tuple[list[list[str]], int]:
    """The rows of a table that begins with a line, and the line after it; no rows if there is none.

    It has the names of at least three columns, two rows below them, and numbers: words may stand in columns for
    another reason. Blank lines may be between the rows, and drawn lines.
    """
    head, begin = _header(lines, cells, first)
    if not numbered[begin]:
        return [], first
    names = [cell.text for cell in head]
    second = next(filter(None, cells[begin : begin + 3]), [])
    is_label = any(name.endswith(":") for name in names)
    if is_label or not 3 <= len(head) <= _MAX_COLUMNS or not names_columns(names, [c.text for c in second]):
        return [], first
    rows, end, is_spaced = [names], begin, False
    # What is read so far of a table that is too large is one: otherwise it would be read again from the next line on.
    while end < len(lines) and not (is_large := len(rows) * len(head) > _MAX_CELLS):
        if _RULE.fullmatch(lines[end]):
            end += 1
            continue
        following = end if lines[end].strip() or end + 1 == len(lines) else end + 1
        last = following + 1
        if following > end and not lines[begin].strip():  # Rows are paragraphs, perhaps of several lines.
            last = next((at for at in range(last, len(lines)) if not lines[at].strip()), len(lines))
        found = list(itertools.chain.from_iterable(cells[following : min(last, following + _LINES)]))
        row = [cell.text for cell in found]
        if len(found) != len(head) or last > following + 1:
            row = _aligned(found, head)
        filled = sum(map(bool, row))
        is_spaced = is_spaced or (following > end and filled == len(head))
        fewest = 2 if following == end or is_spaced else len(head)
        if filled < fewest or len(found) > len(head) * (last - following):
            break
        rows.append(row)
        end = last
    body = [cell for row in rows[1:] for cell in row]
    is_full = all(body) and any(map(DIGIT, body))
    is_table = is_full or is_large or any(cell and NUMBER.fullmatch(cell) for cell in body)
    return (rows, end) if len(rows) > 2 and is_table else ([], first)


def _header(
    lines: Sequence[str], cells: Sequence[Sequence[_Cell]], first: int
) -> tuple[Sequence[_Cell], int]:
    """The names of columns, and the line after them: the column of keys may have none, others two lines.

    >>> lines = ["      Low   High", "      (May) (July)", "Tent  9.00  13.50"]
    >>> head, end = _header(lines, list(map(_cells, lines)), 0)
    >>> [cell.text for cell in head], end
    (['', 'Low (May)', 'High (July)'], 2)
    """
    head = cells[first]
    for at, row in enumerate(cells[first + 1 : first + 3], first + 1):
        if not row or not head:
            break
        key = row[0]
        if key.end < head[0].start:
            above = [_cut(line, head) for line in lines[first:at]]
            names = [" ".join(filter(None, column)) for column in zip(*above, strict=True)]
            named = [cell._replace(text=name) for cell, name in zip(head, names, strict=True)]
            return [key._replace(text=""), *named], at
    return head, first + 1


def _cut(line: str, head: Sequence[_Cell]) -> list[str]:
    """The words of a line in the columns of others, which begin at the last space before each."""
    starts = [0, *(max(line.rfind(" ", 0, cell.start + 1), 0) for cell in head[1:]), len(line)]
    return [line[left:right].strip() for left, right in itertools.pairwise(starts)]


def _aligned(cells: Sequence[_Cell], head: Sequence[_Cell]) -> list[str]:
    """The cells of a row without some, each in the column that it is aligned with: left, right, or in the middle."""
    row = [""] * len(head)
    starts, ends = [name.start for name in head], [name.end for name in head]
    sums = [name.start + name.end for name in head]
    for cell in cells:
        _, column = min(
            _nearest(cell.start, starts), _nearest(cell.end, ends), _nearest(cell.start + cell.end, sums, 2)
        )
        row[column] = f"{row[column]} {cell.text}".strip()
    return row


def _nearest(place: int, places: Sequence[int], unit: int = 1) -> tuple[int, int]:
    """How far the nearest of ascending places is, and its number.

    >>> _nearest(12, [0, 10, 20]), _nearest(99, [0, 10, 20])
    ((2, 1), (79, 2))
    """
    after = bisect.bisect_left(places, place)
    return min((abs(place - places[at]) // unit, at) for at in (after - 1, after) if 0 <= at < len(places))
