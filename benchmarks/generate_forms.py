"""Made-up forms, lists and tables with questions, to train readers on what people keep in folders.

    python -m benchmarks.generate_forms forms.jsonl --documents 4500

Published question sets are prose. An invoice, a CV or a time table has lines of a label and a value, and what is asked
about it is often not there at all. A document has some of the fields of its kind (`questions/form_fields.txt`) in one
of several layouts; a question about a field that it lacks has no answer. Names, places, amounts and dates are drawn at
random; documents that tests and benchmarks ask about are not among these.
"""

import calendar
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.command import run_command

Random = np.random.Generator
_FIELDS = Path(__file__).parent / "questions" / "form_fields.txt"
_MONTHS = list(calendar.month_name)[1:]
_DAYS = list(calendar.day_name)
_LETTERS = "ABCDEFGHKLMNPRSTVWX"
_DRAWN = re.compile(r"\{([^}]*)\}")
_RANGE = re.compile(r"(\d+)-(\d+)")
# How often a document is a table, and how often a line answers nothing.
_TABLES, _FILLERS = 0.3, 0.1
# How many fields that a form lacks are asked for, and how often a cell of a table is.
_IN_VAIN, _CELLS = 3, 0.4


def pick(random: Random, values: Sequence[str]) -> str:
    return values[int(random.integers(len(values)))]


def a_date(random: Random) -> str:
    day, month, year = int(random.integers(1, 29)), int(random.integers(12)), int(random.integers(2015, 2028))
    name = _MONTHS[month]
    forms = (
        f"{day} {name} {year}", f"{name} {day}, {year}", f"{day:02}.{month + 1:02}.{year}",
        f"{day:02}/{month + 1:02}/{year}", f"{year}-{month + 1:02}-{day:02}", f"{day} {name[:3]} {year}",
        f"{pick(random, _DAYS)} {day} {name}",
    )  # fmt: skip
    return pick(random, forms)


def a_time(random: Random) -> str:
    hour, minute = int(random.integers(7, 22)), 5 * int(random.integers(12))
    half = f"{(hour - 1) % 12 + 1}.{minute:02} {'am' if hour < 12 else 'pm'}"
    return pick(random, (f"{hour}:{minute:02}", f"{hour:02}:{minute:02}", half))


def an_amount(random: Random) -> str:
    value = round(float(np.exp(random.uniform(1, 9))), 2)
    sign = pick(random, ("£", "$", "€", "EUR ", "CHF "))
    return f"{sign}{value:,.2f}" if random.random() < 0.7 else f"{sign}{round(value):,}"


def a_code(random: Random) -> str:
    letters = "".join(pick(random, _LETTERS) for _ in range(int(random.integers(1, 4))))
    return f"{letters}{pick(random, ('-', '', '/'))}{int(random.integers(100, 999_999))}"


def some_years(random: Random) -> str:
    first = int(random.integers(1995, 2022))
    return f"{first} to {first + int(random.integers(1, 8))}"


@dataclass(frozen=True)
class Field:
    """What a line says: its label, a template of its value, how people ask for it, and a sentence that says it."""

    labels: tuple[str, ...]
    value: str
    questions: tuple[str, ...]
    sentence: str = ""


@dataclass
class Forms:
    """Kinds of forms with their fields, kinds of tables with the values that name rows, and words to draw from."""

    kinds: dict[str, list[Field]] = field(default_factory=dict)
    tables: dict[str, tuple[str, list[Field]]] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path = _FIELDS) -> "Forms":
        """The forms of a file."""
        forms = cls()
        for part in re.split(r"^\[", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, *lines = part.strip().splitlines()
            name = name.removesuffix("]")
            if name == "words":
                forms.words = {key: rest.split("|") for key, rest in (line.split(": ", 1) for line in lines)}
            elif name.startswith("table "):
                forms.tables[name.removeprefix("table ")] = lines[0], [_field(line) for line in lines[1:]]
            else:
                shared = {known.labels[0]: known for known in forms.kinds.get("any", [])}
                names = [label for line in lines if line.startswith("= ") for label in line[2:].split(", ")]
                own = [_field(line) for line in lines if not line.startswith("= ")]
                forms.kinds[name] = own + [shared[label] for label in names]
        del forms.kinds["any"]
        return forms

    def value(self, random: Random, template: str) -> str:
        """A template with its parts drawn: words of a list, a number of a range, or one of several."""
        values: dict[str, Callable[[Random], str]] = {
            "date": a_date, "time": a_time, "money": an_amount, "code": a_code, "years": some_years,
        }  # fmt: skip
        composed = {
            "person": "{first} {last}",
            "title": "{Mr/Ms/Mrs/Dr} {last}",
            "company": "{last} {trade}{/ Ltd/ & Sons/ GmbH/ Inc.}",
            "phone": "0{1000-9999} {100000-999999}",
            "address": "{1-180} {street}, {town}",
            "period": "{2-60} {days/weeks/months/years}",
        }

        def draw(part: re.Match[str]) -> str:
            name = part[1]
            bounds = _RANGE.fullmatch(name)
            if bounds:
                return str(int(random.integers(int(bounds[1]), int(bounds[2]))))
            if name == "email":
                return self.value(random, "{first}.{last}@{town}.example").lower()
            if name in values:
                return values[name](random)
            if name in composed:
                return self.value(random, composed[name])
            return pick(random, self.words.get(name) or (_DAYS if name == "day" else name.split("/")))

        return _DRAWN.sub(draw, template)


def _field(line: str) -> Field:
    labels, value, questions, *sentence = line.split("; ")
    return Field(tuple(labels.split("|")), value, tuple(questions.split("|")), "".join(sentence))


class Draft:
    """A text that grows, and the questions about it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.questions: list[dict[str, object]] = []

    def line(self, before: str, value: str, after: str, question: str | None) -> None:
        """A line with a value that a question asks for."""
        start = len(self.text) + len(before)
        self.text += f"{before}{value}{after}\n"
        if question:
            self.questions.append({"question": question, "answers": [{"text": value, "start": start}]})

    def ask_in_vain(self, question: str) -> None:
        self.questions.append({"question": question, "answers": []})


def form(forms: Forms, random: Random, kind: str) -> Draft:
    """A form with some of the fields of its kind; some of the others are asked for in vain."""
    fields = forms.kinds[kind]
    order = random.permutation(len(fields))
    count = int(random.integers(min(5, len(fields)), max(6, len(fields) - 2)))
    separator = pick(random, (": ", ": ", ": ", " - ", " "))
    upper, prose = random.random() < 0.15, random.random() * 0.6
    company, person = (forms.value(random, name) for name in ("{company}", "{person}"))
    headings = (kind, kind.upper(), f"{company}\n{kind}", f"{kind} of {person}")
    draft = Draft(f"{pick(random, headings)}\n")
    for at in order[:count]:
        value, question = forms.value(random, fields[at].value), pick(random, fields[at].questions)
        if fields[at].sentence and random.random() < prose:
            before, after = fields[at].sentence.split("{}")
            draft.line(before, value, after, question)
        else:
            label = pick(random, fields[at].labels)
            draft.line((label.upper() if upper else label) + separator, value, "", question)
        if random.random() < _FILLERS:
            draft.text += f"{pick(random, forms.words['filler'])}\n"
    for at in order[count : count + _IN_VAIN]:
        draft.ask_in_vain(pick(random, fields[at].questions))
    return draft


def table(forms: Forms, random: Random, kind: str) -> Draft:
    """A table as a library writes one, a sentence per cell; one column and one row are asked for in vain."""
    rows_of, columns = forms.tables[kind]
    draft = Draft(f"{kind}\n")
    chosen = [column for column in columns if random.random() < 0.75] or columns[:1]
    names = list(dict.fromkeys(forms.value(random, rows_of) for _ in range(int(random.integers(4, 9)))))
    *rows, absent = names if len(names) > 1 else [*names, "nobody"]
    for row in rows:
        for column in chosen:
            question = pick(random, column.questions).format(row) if random.random() < _CELLS else None
            value = forms.value(random, column.value)
            draft.line(f"The {column.labels[0]} of {row} is ", value, ".", question)
    for column in columns:
        if column not in chosen:
            draft.ask_in_vain(pick(random, column.questions).format(rows[0]))
            break
    draft.ask_in_vain(pick(random, chosen[0].questions).format(absent))
    return draft


def main(
    file: Annotated[Path, typer.Argument(help="The file to write, .jsonl.")],
    documents: Annotated[int, typer.Option(help="How many documents.")] = 4_500,
) -> None:
    """Write a file of documents with questions."""
    forms, random = Forms.read(), np.random.default_rng(1)
    with file.open("w", encoding="utf-8") as out:
        for number in range(documents):
            make, kinds = (table, forms.tables) if random.random() < _TABLES else (form, forms.kinds)
            draft = make(forms, random, pick(random, tuple(kinds)))
            row = {
                "title": f"form {number}",
                "context": draft.text.rstrip("\n"),
                "questions": draft.questions,
            }
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    run_command(main)
