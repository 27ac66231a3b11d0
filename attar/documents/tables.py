"""Tables as sentences: "The phone of Ann Lee is 1074." The cell answers, the row's key says which row it is.

Of nineteen ways to write a row, this one was answered from best (`benchmarks/LOG.md`). It takes most words, too: a
large table has a sentence per row, "Ann Lee (phone 1074, room 12)."
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NUMBER = re.compile(r"[\W\d_]*")
DIGIT = re.compile(r"\d").search
_AMOUNT = re.compile(r"\W*\d").match
_WORD = re.compile(r"[^\W\d_A-Z]{3}")
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
# A key is one of the first columns, or the first few together.
_KEY_COLUMNS = 3
# A longer cell is a text of its own.
_LONGEST_CELL = 100
_LONGEST_NAME = 80
# A longer key is not repeated for each cell of its row.
_LONGEST_KEY = 1_000
# The cells of the largest table that has a sentence for each.
_FACTS = 500


class RowText(NamedTuple):
    """A row of a table as sentences, and its number among the given rows."""

    number: int
    text: str


class _Keys(NamedTuple):
    """The columns that tell rows apart; `about`: of codes and dates, the column that says what they stand for."""

    columns: tuple[int, ...]
    about: int | None = None


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
        f"{names[at]} {row[at]}" if NUMBER.fullmatch(row[at]) and not when(row[at]) else row[at]
        for at in columns
        if at < len(row) and row[at]
    )
    others = [(at, cell) for at, cell in enumerate(row) if cell and at not in columns]
    if not as_facts or len(key) > _LONGEST_KEY:
        cells = [f"{_small(names[at])} {cell}" if at < len(names) else cell for at, cell in others]
        return sentence(f"{key} ({', '.join(cells)})" if cells else key)
    facts = []
    for at, cell in others:
        # "The job of R2 is Lost fob. The charge of Lost fob (R2) is 22.50."
        if about is None or about == at or about >= len(row) or len(row[about]) > _LONGEST_KEY:
            of = key
        else:
            of = f"{row[about]} ({key})"
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
    if 0 in alone and not all(NUMBER.fullmatch(row[0]) and not when(row[0]) for row in rows):
        return _Keys((0,), words[0] if words else None)
    if words:
        return _Keys((words[0],))
    together = next(
        (tuple(few[:count]) for count in (2, 3) if count < len(names) and differ(few[:count])), None
    )
    is_named = bool(rows) and not all(NUMBER.fullmatch(row[0]) for row in rows if row)
    columns = together if together and (is_named or not alone) else (alone[0],) if alone else None
    return None if columns is None else _Keys(columns)


def _is_code(cell: str) -> bool:
    """Whether a cell is a date, a number, or letters and digits such as R2."""
    return bool(when(cell)) or (_WORD.search(cell) is None and DIGIT(cell) is not None)


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
            NUMBER.fullmatch(cell) and not (when(cell) and at < len(below) and when(below[at]) != when(cell))
            for at, cell in enumerate(row)
            if cell or at
        )
    )
