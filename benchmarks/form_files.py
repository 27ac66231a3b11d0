"""An invoice, a CV, an order form, a time table and a price list, as text, PDF or DOCX: questions/forms.json.

Written before the work on documents that they measure.
"""

from benchmarks.document_files import docx_of, pdf_table_of

INVOICE = """LARKFIELD PRINT & SIGN
Unit 6, Tannery Row, Ebbworth EB3 9KL
Telephone 01632 960221

INVOICE

Bill to:                        Invoice number: LP-20418
Thistledown Nursery School      Invoice date: 3 May 2026
14 Abbot's Walk                 Order reference: TN-77
Ebbworth EB1 4RD                Due date: 2 June 2026

Description                     Qty     Unit price      Amount
Outdoor sign, aluminium           1         310.00      310.00
Name badges                      24           4.25      102.00
Leaflets, A5, folded            500           0.18       90.00
Delivery                          1          15.00       15.00

Subtotal                                                517.00
Discount 5%                                              25.85
VAT 20%                                                  98.23
Total due                                               589.38

Payment by bank transfer
Account name: Larkfield Print & Sign
Sort code: 60-83-71
Account number: 44190287

Late payments are charged 2 % interest per month
Contact: Oluwaseun Bright, accounts@larkfield.example
"""

CV = """MARISOL QUINTERO-HALE

23 Fuller's Lane, Ebbworth
07700 900672
marisol@example.net

PROFILE
Landscape architect with nine years of experience in public parks

EXPERIENCE

2022 - today    Senior landscape architect, Ebbworth City Council
                Led the new riverside park (4.5 million pounds)
                Manages a team of six

2018 - 2022     Landscape architect, Verdant Studio, Bristol
                School gardens and two cemeteries

2017            Intern, Botanic Garden, Lisbon

EDUCATION

2015 - 2017     MA Landscape Architecture, University of Sheffield
2012 - 2015     BSc Botany, University of Porto

SKILLS
AutoCAD, QGIS, planting design

LANGUAGES
Spanish (native)
English (fluent)
Portuguese (good)

INTERESTS
Bell ringing, long-distance swimming

REFEREES
Prof. Alasdair Munro, University of Sheffield
Imelda Castellan, Verdant Studio
"""

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

PRICES = """COPPER KETTLE TEA ROOMS
Open Tuesday to Sunday, 10:00 to 17:30

HOT DRINKS
Pot of tea .................... 2.90
Coffee ........................ 3.20
Hot chocolate ................. 3.60

CAKES
Lemon drizzle ................. 3.40
Carrot cake ................... 3.75
Scone with cream and jam ...... 4.10

LUNCH
Soup of the day ............... 5.80
Cheese toastie ................ 6.25
Quiche with salad ............. 8.95

Children's portions: half price
Parties of more than eight: please book, 01632 960512
Dogs: welcome in the garden
"""


def _columns(lines: list[str], rows: list[list[str]], after: list[str]) -> str:
    widths = [max(len(row[at]) for row in rows) + 3 for at in range(len(rows[0]))]
    table = [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*lines, "", *table, "", *after]) + "\n"


def make_forms() -> dict[str, dict[str, bytes]]:
    """Each document as the files that people have of it, by name."""
    order = _columns(ORDER_LINES, ORDER, ORDER_AFTER)
    timetable = _columns(["TIME TABLE", *TIMETABLE_LINES], TIMETABLE, TIMETABLE_AFTER)
    return {
        "invoice": {"txt": INVOICE.encode(), "docx": docx_of(INVOICE), "pdf": _typed(INVOICE)},
        "cv": {"txt": CV.encode(), "docx": docx_of(CV), "pdf": _typed(CV)},
        "order": {
            "txt": order.encode(),
            "docx": docx_of("\n\n".join(["# Order form", *ORDER_LINES, *ORDER_AFTER]), table=ORDER),
            "pdf": pdf_table_of("Order form", ORDER_LINES, ORDER, ORDER_AFTER),
        },
        "timetable": {
            "txt": timetable.encode(),
            "docx": docx_of(
                "\n\n".join(["# Time table", *TIMETABLE_LINES, *TIMETABLE_AFTER]), table=TIMETABLE
            ),
            "pdf": pdf_table_of("Time table", TIMETABLE_LINES, TIMETABLE, TIMETABLE_AFTER),
        },
        "prices": {"txt": PRICES.encode(), "docx": docx_of(PRICES), "pdf": _typed(PRICES)},
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
