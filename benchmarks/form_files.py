"""An invoice, a CV, an order form, a time table and a price list, as text, PDF or DOCX: questions/forms.json.

Written before the work on documents that they measure.
"""

import json
from pathlib import Path

from benchmarks.document_files import docx_of, pdf_table_of

_TEXTS = Path(__file__).parent / "questions" / "forms"

ORDER_LINES = [
    "Order number: 9917",
    "Ordered by: Hester Vance",
    "Department: Kitchen",
    "Cost centre: 4402",
    "Date: 12 January 2026",
    "Supplier: Penhallow Catering Supplies",
    "Supplier's telephone: 01632 960758",
    "Deliver to: Back entrance, Moorgate House",
    "Delivery wanted by: 30 January 2026",
]
ORDER = [
    ["Item", "Article number", "Quantity", "Price each"],
    ["Stock pot, 20 litres", "SP-20", "2", "84.90"],
    ["Chef's knife", "CK-9", "6", "37.50"],
    ["Cutting board, green", "CB-G", "10", "12.20"],
    ["Oven gloves", "OG-1", "8", "9.75"],
]
ORDER_AFTER = ["Approved by: Julian Ferreira", "Remarks: no substitutes without asking"]

TIMETABLE = [
    ["Stop", "Bus 7", "Bus 7A", "Bus 9", "Night bus"],
    ["Railway station", "07:05", "07:35", "08:10", "23:40"],
    ["Market square", "07:12", "07:42", "08:19", "23:47"],
    ["Hospital", "07:20", "-", "08:27", "23:55"],
    ["Swimming pool", "07:26", "07:51", "-", "00:02"],
    ["University", "07:34", "07:58", "08:40", "00:11"],
]
TIMETABLE_LINES = ["Valid from 14 December 2025", "Monday to Friday, not on public holidays"]
TIMETABLE_AFTER = ["Bicycles are carried after 9:00 only.", "Lost property: 01632 960335"]


def _columns(lines: list[str], rows: list[list[str]], after: list[str]) -> str:
    widths = [max(len(row[at]) for row in rows) + 3 for at in range(len(rows[0]))]
    table = [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*lines, "", *table, "", *after]) + "\n"


def make_forms() -> dict[str, dict[str, bytes]]:
    """Each document as the files that people have of it, by name."""
    return {
        "invoice": _as_typed(_TEXTS / "invoice.txt"),
        "cv": _as_typed(_TEXTS / "cv.txt"),
        "order": _with_table("Order form", ORDER_LINES, ORDER, ORDER_AFTER),
        "timetable": _with_table("Time table", TIMETABLE_LINES, TIMETABLE, TIMETABLE_AFTER, ("TIME TABLE",)),
        "prices": _as_typed(_TEXTS / "prices.txt"),
    }


def make_forms_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """The documents of a folder of texts, and of JSON files with the lines and the table of a document."""
    return {
        path.stem: _as_typed(path) if path.suffix == ".txt" else _with_table(**json.loads(path.read_bytes()))
        for path in sorted(folder.iterdir())
    }


def _as_typed(path: Path) -> dict[str, bytes]:
    text = path.read_bytes().decode()
    return {"txt": text.encode(), "docx": docx_of(text), "pdf": _typed(text)}


def _with_table(
    title: str, lines: list[str], table: list[list[str]], after: list[str], heading: tuple[str, ...] = ()
) -> dict[str, bytes]:
    return {
        "txt": _columns([*heading, *lines], table, after).encode(),
        "docx": docx_of("\n\n".join([f"# {title}", *lines, *after]), table=table),
        "pdf": pdf_table_of(title, lines, table, after),
    }


def _typed(text: str) -> bytes:
    """A PDF file with the lines of a text, in a font of equal widths."""
    from fpdf import FPDF
    from fpdf.enums import XPos, YPos

    file = FPDF()
    file.set_font("courier", size=10)
    file.add_page()
    for line in text.split("\n"):
        file.cell(0, 5, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(file.output())
