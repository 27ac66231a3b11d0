"""Tables as sentences: "The phone of Ann Lee is 1074." The cell answers, the row's key says which row it is.

Of nineteen ways to write a row, this one was answered from best (`benchmarks/LOG.md`). It takes most words, too: a
large table has a sentence per row, "Ann Lee (phone 1074, room 12)."
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"[\W\d_]*")
_DIGIT = re.compile(r"\d").search
_GAP = re.compile(r"[^\S\n]{2,}|\t[^\S\n]*")
_GAPS = re.compile(r"\S(?:[^\S\n]{2,}|\t[^\S\n]*)\S")
_CAPITAL = re.compile(
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Jan|Feb|Mar(?:ch)?\b|Apr|May\b|Ju[nl]|Aug|Sep|Oct|Nov|Dec"
)
# A key is one of the first columns, or the first few together.
_KEY_COLUMNS = 3
# A longer cell is a text of its own.
_LONGEST_CELL = 100
_LONGEST_NAME = 80
# The cells of the largest table that has a sentence for each.
_FACTS = 500
# The gaps of the smallest table in columns of spaces.
_FEWEST_GAPS = 4
_MAX_COLUMNS = 1_000


class RowText(NamedTuple):
    """A row of a table as sentences, and its number among the given rows."""

    number: int
    text: str


class _Cell(NamedTuple):
    start: int
    end: int
    text: str


def fact(name: str, value: str, of: str = "") -> str:
    """A value with its name, as a sentence.

    >>> fact("Phone", "1074", "Ann Lee"), fact("VAT", "20 %")
    ('The phone of Ann Lee is 1074.', 'The VAT is 20 %.')
    """
    if len(value) > _LONGEST_CELL:
        return sentence(f"{', '.join(filter(None, (of, name)))}: {value}")
    return sentence(f"The {_small(name)}{' of ' * bool(of)}{of} is {value}")


def _small(name: str) -> str:
    """The name of a column as it is inside a sentence."""
    is_common = name[1:2].islower() and not _CAPITAL.match(name)
    return name[:1].lower() + name[1:] if is_common else name


def sentence(text: str) -> str:
    """A text that ends as a sentence does."""
    return text if not text or text[-1] in ".!?:…" else text + "."


def row_texts(rows: Sequence[Sequence[str]], header: bool | None = None) -> Iterator[RowText]:
    """The rows of a table as sentences; `header`: whether the first row has the names of the columns.

    >>> [row.text for row in row_texts([["Name", "Age"], ["Ann Lee", "34"], ["Bob Ray", ""]], header=True)]
    ['The age of Ann Lee is 34.', 'Bob Ray.']
    >>> [row.text for row in row_texts([["Rent", "900 a month"], ["Deposit", "1,800"]])]
    ['Rent: 900 a month.', 'Deposit: 1,800.']
    """
    cells = [(number, [" ".join(cell.split()) for cell in row]) for number, row in enumerate(rows)]
    cells = [(number, row) for number, row in cells if any(row)]
    if not cells:
        return
    width = max(len(row) for _, row in cells)
    first = cells[0][1]
    if header is None:
        # In a table of two columns the first cell of a row says what the second is.
        header = width > 2 and names_columns(first)
    if header and len(cells) > 1:
        names, cells = [name[:_LONGEST_NAME] for name in first], cells[1:]
        keys = _key_columns(names, [row for _, row in cells]) if len(names) > 1 else None
    else:
        names, keys = [], None
    mark = ": " if width == 2 and not names else "; "
    for number, row in cells:
        if keys is None:
            named = (
                f"{names[at]}: {cell}" if at < len(names) and names[at] else cell
                for at, cell in enumerate(row)
                if cell
            )
            yield RowText(number, sentence(mark.join(named)))
        else:
            yield RowText(number, _row_text(names, row, keys, len(cells) * len(names) <= _FACTS))


def _row_text(names: Sequence[str], row: Sequence[str], keys: Sequence[int], as_facts: bool) -> str:
    """The cells of a row, each as a sentence that says of what it is, or all in one sentence."""
    key = ", ".join(
        f"{names[at]} {row[at]}" if _NUMBER.fullmatch(row[at]) else row[at]
        for at in keys
        if at < len(row) and row[at]
    )
    if not as_facts:
        cells = [
            f"{_small(names[at])} {cell}" if at < len(names) else cell
            for at, cell in enumerate(row)
            if cell and at not in keys
        ]
        return sentence(f"{key} ({', '.join(cells)})" if cells else key)
    facts = [
        fact(names[at], cell, key) if at < len(names) and names[at] else sentence(f"{key}: {cell}")
        for at, cell in enumerate(row)
        if cell and at not in keys
    ]
    return " ".join(facts) or sentence(key)


def _key_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[int, ...] | None:
    """The columns that tell rows apart: one with words, or the first few together, or one with dates or numbers.

    A date is what a row is about only in the first column.

    >>> names, ann, bob = ["name", "course", "passed"], ["Ann", "first aid", "3 May"], ["Bob", "first aid", "4 May"]
    >>> _key_columns(names, [ann, bob]), _key_columns(names, [ann, ["Ann", "boiler", "5 May"], bob])
    ((0,), (0, 1))
    """

    def differ(columns: Sequence[int]) -> bool:
        values = [tuple(row[at] if at < len(row) else "" for at in columns) for row in rows]
        return all(value[0] for value in values) and len(set(values)) == len(values)

    few = [*range(min(_KEY_COLUMNS, len(names)))]
    alone = [at for at in few if differ([at])]
    words = [at for at in alone if not all((_DIGIT if at else _NUMBER.fullmatch)(row[at]) for row in rows)]
    if words:
        return (words[0],)
    together = next(
        (tuple(few[:count]) for count in (2, 3) if count < len(names) and differ(few[:count])), None
    )
    is_named = bool(rows) and not all(_NUMBER.fullmatch(row[0]) for row in rows if row)
    return together if together and (is_named or not alone) else (alone[0],) if alone else None


def names_columns(row: Sequence[str]) -> bool:
    """Whether a row can be the names of columns: words, each once, in every cell.

    >>> names_columns(["name", "age"]), names_columns(["Ann Lee", "34"])
    (True, False)
    """
    return bool(row) and len(set(row)) == len(row) and not any(map(_NUMBER.fullmatch, row))


def with_tables(text: str) -> Iterator[str]:
    r"""The parts of a text, its tables in columns of spaces as rows of sentences.

    >>> list(with_tables("Item   Price  Size\nDesk     120  large\nLamp      35\n\nVAT   20%"))
    ['The price of Desk is 120. The size of Desk is large.', 'The price of Lamp is 35.', 'VAT   20%']
    """
    if len(_GAPS.findall(text)) < _FEWEST_GAPS:
        yield text
        return
    lines = text.split("\n")
    waiting: list[str] = []
    at = 0
    while at < len(lines):
        rows, end = _table_at(lines, at)
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


def _cells(line: str) -> list[_Cell]:
    found, start = [], len(line) - len(line.lstrip())
    end = len(line.rstrip())
    for gap in _GAP.finditer(line, start, end):
        found.append(_Cell(start, gap.start(), line[start : gap.start()]))
        start = gap.end()
    if start < end:
        found.append(_Cell(start, end, line[start:end]))
    return found


def _table_at(lines: Sequence[str], first: int) -> tuple[list[list[str]], int]:
    """The rows of a table that begins with a line, and the line after it; no rows if there is none.

    It has the names of at least three columns, two rows below them, and numbers: words may stand in columns for
    another reason. Blank lines may be between the rows.
    """
    head = _cells(lines[first])
    names = [cell.text for cell in head]
    if not 3 <= len(head) <= _MAX_COLUMNS or not names_columns(names):
        return [], first
    rows, end, is_spaced = [names], first + 1, False
    while end < len(lines):
        following = end if lines[end].strip() or end + 1 == len(lines) else end + 1
        cells = _cells(lines[following])
        is_spaced = is_spaced or (following > end and len(cells) == len(head))
        fewest = 2 if following == end or is_spaced else len(head)
        if not fewest <= len(cells) <= len(head):
            break
        rows.append([cell.text for cell in cells] if len(cells) == len(head) else _aligned(cells, head))
        end = following + 1
    has_numbers = any(cell and _NUMBER.fullmatch(cell) for row in rows[1:] for cell in row)
    return (rows, end) if len(rows) > 2 and has_numbers else ([], first)


def _aligned(cells: Sequence[_Cell], head: Sequence[_Cell]) -> list[str]:
    """The cells of a row without some, each in the column that it is aligned with: left, right, or in the middle."""
    row = [""] * len(head)
    for cell in cells:
        distances = [
            min(
                abs(cell.start - name.start),
                abs(cell.end - name.end),
                abs(cell.start + cell.end - name.start - name.end) // 2,
            )
            for name in head
        ]
        column = min(range(len(head)), key=distances.__getitem__)
        row[column] = f"{row[column]} {cell.text}".strip()
    return row
