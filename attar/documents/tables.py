"""Tables as sentences: "The phone of Ann Lee is 1074." The cell answers, the row's key says which row it is.

Of nineteen ways to write a row, this one was answered from best (`benchmarks/LOG.md`). It takes most words, too: a
large table has a sentence per row, "Ann Lee (phone 1074, room 12)."
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"[\W\d_]*")
_DIGIT = re.compile(r"\d").search
_AMOUNT = re.compile(r"\W*\d").match
_WORD = re.compile(r"[^\W\d_A-Z]{3}")
# "Ann Lee          Invoice date: 3 May" are two lines next to each other.
_BESIDE = re.compile(r"\S[^\S\n]{3,}(?=[^\W_][^\s:]*(?: [^\s:]+){0,3}:(?:\s|\Z))")
_GAP = re.compile(r"[^\S\n]{2,}|\t[^\S\n]*")
_GAPS = re.compile(r"\S(?:[^\S\n]{2,}|\t[^\S\n]*)\S")
_DAY = r"(?:(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?s?\b)"
_MONTH = r"(?:(?:Jan|Feb|Mar(?:ch)?\b|Apr|May\b|Ju[nl]|Aug|Sep|Oct|Nov|Dec)[a-z]*)"
_CAPITAL = re.compile(rf"{_DAY}|{_MONTH}")
# What a row or column can stand for: a time, a day, a year; and the word before it in a sentence.
_WHEN = {
    "at": re.compile(r"\d{1,2}:\d\d(?:\s?[ap]\.?m\.?)?(?:\s?[-–]\s?\d{1,2}:\d\d(?:\s?[ap]\.?m\.?)?)?"),
    "on": re.compile(
        rf"{_DAY}\.?(?:,? \d{{1,2}}\.?(?: {_MONTH})?(?: \d{{4}})?)?|\d{{1,2}}\.? {_MONTH}\.?(?: \d{{4}})?"
    ),
    "in": re.compile(rf"(?:19|20)\d\d(?:[-–/](?:\d\d){{1,2}})?|{_MONTH}\.?(?: \d{{4}})?"),
}
_RULE = re.compile(r"[\s\-=_+|─━═]*[\-=_─━═]{3}[\s\-=_+|─━═]*")
# "Beard trim ........ 11.50"
_LEADERS = re.compile(r"(?<=\w)[^\S\n]*(?:\.{4,}|[…·]{2,})[^\S\n]*(?=\S)")
# A key is one of the first columns, or the first few together.
_KEY_COLUMNS = 3
# A longer cell is a text of its own.
_LONGEST_CELL = 100
_LONGEST_NAME = 80
# The cells of the largest table that has a sentence for each.
_FACTS = 500
# The most lines of a row.
_LINES = 4
# The gaps of the smallest table in columns of spaces.
_FEWEST_GAPS = 4
_MAX_COLUMNS = 1_000


class RowText(NamedTuple):
    """A row of a table as sentences, and its number among the given rows."""

    number: int
    text: str


class _Keys(NamedTuple):
    """The columns that tell rows apart; `about`: of codes and dates, the column that says what they stand for."""

    columns: tuple[int, ...]
    about: int | None = None


class _Cell(NamedTuple):
    start: int
    end: int
    text: str


def fact(name: str, value: str, of: str = "") -> str:
    """A value with its name, as a sentence.

    >>> fact("Phone", "1074", "Ann Lee"), fact("VAT", "20 %")
    ('The phone of Ann Lee is 1074.', 'The VAT is 20 %.')
    >>> fact("Monday", "Choir", "8:50"), fact("2026", "94,200", "Rent"), fact("Guide", "Ann", "3 May")
    ('On Monday at 8:50 is Choir.', 'Rent in 2026 is 94,200.', 'The guide on 3 May is Ann.')
    """
    if len(value) > _LONGEST_CELL:
        return sentence(f"{', '.join(filter(None, (of, name)))}: {value}")
    column, row = when(name), when(of)
    if column and row:
        earlier, later = sorted((f"{column} {name}", f"{row} {of}"), reverse=True)
        return sentence(f"{earlier[0].upper()}{earlier[1:]} {later} is {value}")
    if column and of:
        return sentence(f"{of} {column} {name} is {value}")
    whose = f" {row or 'of'} {of}" if of else ""
    return sentence(f"The {_small(name)}{whose} is {value}")


def when(text: str) -> str:
    """The word before a time, a day or a year in a sentence; none of another text.

    >>> [when(text) for text in ("8:50", "Monday", "12 March", "2026-27", "Ann Lee", "12")]
    ['at', 'on', 'on', 'in', '', '']
    """
    return next((word for word, pattern in _WHEN.items() if pattern.fullmatch(text)), "")


def _small(name: str) -> str:
    """The name of a column as it is inside a sentence; of a program's name, "due_date", its words."""
    name = name.replace("_", " ")
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
        header = width > 2 and names_columns(first, cells[1][1] if len(cells) > 1 else ())
    if header and len(cells) > 1:
        names, cells = [name[:_LONGEST_NAME] for name in first], cells[1:]
        keys = _keys(names, [row for _, row in cells]) if len(names) > 1 else None
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


def _row_text(names: Sequence[str], row: Sequence[str], keys: _Keys, as_facts: bool) -> str:
    """The cells of a row, each as a sentence that says of what it is, or all in one sentence."""
    columns, about = keys
    key = ", ".join(
        f"{names[at]} {row[at]}" if _NUMBER.fullmatch(row[at]) and not when(row[at]) else row[at]
        for at in columns
        if at < len(row) and row[at]
    )
    others = [(at, cell) for at, cell in enumerate(row) if cell and at not in columns]
    if not as_facts:
        cells = [f"{_small(names[at])} {cell}" if at < len(names) else cell for at, cell in others]
        return sentence(f"{key} ({', '.join(cells)})" if cells else key)
    facts = []
    for at, cell in others:
        # "The job of R2 is Lost fob. The charge of Lost fob (R2) is 22.50."
        of = key if about in (None, at) or about >= len(row) else f"{row[about]} ({key})"
        named = at < len(names) and names[at]
        facts.append(fact(names[at], cell, of) if named else sentence(f"{of}: {cell}"))
    return " ".join(facts) or sentence(key)


def _keys(names: Sequence[str], rows: Sequence[Sequence[str]]) -> _Keys | None:
    """The columns that tell rows apart: one with words, or the first few together, or one with dates or numbers.

    A date or a code is what a row is about only in the first column.

    >>> names, ann, bob = ["name", "course", "passed"], ["Ann", "first aid", "3 May"], ["Bob", "first aid", "4 May"]
    >>> _keys(names, [ann, bob]).columns, _keys(names, [ann, ["Ann", "boiler", "5 May"], bob]).columns
    ((0,), (0, 1))
    >>> _keys(["code", "job", "price"], [["R1", "lost key", "14"], ["R2", "lost fob", "22"]])
    _Keys(columns=(0,), about=1)
    """

    def differ(columns: Sequence[int]) -> bool:
        values = [tuple(row[at] if at < len(row) else "" for at in columns) for row in rows]
        return all(value[0] for value in values) and len(set(values)) == len(values)

    few = [*range(min(_KEY_COLUMNS, len(names)))]
    alone = [at for at in few if differ([at])]
    words = [at for at in alone if not all(_is_code(row[at]) or (at and _AMOUNT(row[at])) for row in rows)]
    is_grid = sum(bool(when(name)) for name in names[1:]) > 1
    if 0 in words or (0 in alone and is_grid):
        return _Keys((0,))
    if 0 in alone and not all(_NUMBER.fullmatch(row[0]) and not when(row[0]) for row in rows):
        return _Keys((0,), words[0] if words else None)
    if words:
        return _Keys((words[0],))
    together = next(
        (tuple(few[:count]) for count in (2, 3) if count < len(names) and differ(few[:count])), None
    )
    is_named = bool(rows) and not all(_NUMBER.fullmatch(row[0]) for row in rows if row)
    columns = together if together and (is_named or not alone) else (alone[0],) if alone else None
    return None if columns is None else _Keys(columns)


def _is_code(cell: str) -> bool:
    """Whether a cell is a date, a number, or letters and digits such as R2."""
    return bool(when(cell)) or (_WORD.search(cell) is None and _DIGIT(cell) is not None)


def names_columns(row: Sequence[str], below: Sequence[str] = ()) -> bool:
    """Whether a row can be the names of columns: words, each once, in every cell; or years above other cells.

    >>> names_columns(["name", "age"]), names_columns(["Ann Lee", "34"])
    (True, False)
    >>> names_columns(["", "2025", "2026"], ["Rent", "900", "950"]), names_columns(["Ann", "1999"], ["Bob", "2001"])
    (True, False)
    """
    return (
        bool(row)
        and len(set(row)) == len(row)
        and not any(
            _NUMBER.fullmatch(cell) and not (when(cell) and at < len(below) and when(below[at]) != when(cell))
            for at, cell in enumerate(row)
            if cell or at
        )
    )


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
    below = [_cells(line) for line in itertools.takewhile(str.strip, lines[first + 1 :])]
    if len(labels) < 2 or not below or not all(label.text.endswith(":") for label in labels):
        return []
    if any(len(cells) > len(labels) or any(":" in cell.text for cell in cells) for cells in below):
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
    another reason. Blank lines may be between the rows, and drawn lines.
    """
    head, begin = _header(lines, first)
    names = [cell.text for cell in head]
    second = next((cells for line in lines[begin : begin + 3] if (cells := _cells(line))), [])
    is_label = any(name.endswith(":") for name in names)
    if is_label or not 3 <= len(head) <= _MAX_COLUMNS or not names_columns(names, [c.text for c in second]):
        return [], first
    rows, end, is_spaced = [names], begin, False
    while end < len(lines):
        if _RULE.fullmatch(lines[end]):
            end += 1
            continue
        following = end if lines[end].strip() or end + 1 == len(lines) else end + 1
        last = following + 1
        if following > end and not lines[begin].strip():  # Rows are paragraphs, perhaps of several lines.
            last = next((at for at in range(last, len(lines)) if not lines[at].strip()), len(lines))
        cells = [cell for line in lines[following : min(last, following + _LINES)] for cell in _cells(line)]
        row = [cell.text for cell in cells]
        if len(cells) != len(head) or last > following + 1:
            row = _aligned(cells, head)
        filled = sum(map(bool, row))
        is_spaced = is_spaced or (following > end and filled == len(head))
        fewest = 2 if following == end or is_spaced else len(head)
        if filled < fewest or len(cells) > len(head) * (last - following):
            break
        rows.append(row)
        end = last
    body = [cell for row in rows[1:] for cell in row]
    is_full = all(body) and any(map(_DIGIT, body))
    is_table = is_full or any(cell and _NUMBER.fullmatch(cell) for cell in body)
    return (rows, end) if len(rows) > 2 and is_table else ([], first)


def _header(lines: Sequence[str], first: int) -> tuple[list[_Cell], int]:
    """The names of columns, and the line after them: the column of keys may have none, others two lines.

    >>> cells, end = _header(["      Low   High", "      (May) (July)", "Tent  9.00  13.50"], 0)
    >>> [cell.text for cell in cells], end
    (['', 'Low (May)', 'High (July)'], 2)
    """
    head = _cells(lines[first])
    for at, line in enumerate(lines[first + 1 : first + 3], first + 1):
        key = next(iter(_cells(line)), None)
        if key is None or not head:
            break
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
