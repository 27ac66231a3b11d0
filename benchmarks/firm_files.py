"""The folder of a boatyard: some fifty made-up files of nearly thirty kinds, as people keep them.

Written before the work on documents that they measure. The questions are in `questions/firm.json`.
"""

import textwrap
from collections.abc import Callable
from pathlib import Path

from benchmarks.document_files import (
    docx_of,
    eml_of,
    epub_of,
    html_of,
    mbox_of,
    pdf_of,
    pdf_table_of,
    tar_of,
    xlsx_of,
    zip_of,
)
from benchmarks.office_files import msg_of, odp_of, ods_of, odt_of, picture_of, pptx_of, rtf_of
from benchmarks.stories import tell_stories

# Files as they are, and, where a name ends with a second `.txt`, the text of a file that is made here.
_FILES = Path(__file__).parent / "questions" / "firm"


def _text(name: str) -> str:
    return (_FILES / f"{name}.txt").read_bytes().decode()


def wrapped(text: str, width: int = 72) -> str:
    """A text with lines of at most so many characters, as programs for e-mail write them."""
    return "\n\n".join(
        "\n".join(textwrap.fill(line, width) for line in paragraph.split("\n"))
        for paragraph in text.split("\n\n")
    )


def novel(words: int = 25_000) -> str:
    """Made-up stories, as long as a short novel."""
    chapters: list[str] = []
    count = 0
    for number, story in enumerate(tell_stories(11, 10_000), 1):
        if count > words:
            break
        chapters.append(f"CHAPTER {number}\n\n{story.text}")
        count += len(story.text.split())
    return "\n\n".join(chapters)


def _letters() -> dict[str, bytes]:
    return {
        "letters/harbour master draft.docx": docx_of(_text("letters/harbour master draft.docx")),
        "letters/insurance.docx": docx_of(_text("letters/insurance.docx")),
        "letters/council.odt": odt_of(_text("letters/council.odt")),
        "letters/teak.rtf": rtf_of(_text("letters/teak.rtf")),
        "letters/apprentice.pdf": pdf_of(
            [
                "Dear Ms Okafor,\n\nWe are glad to offer you an apprenticeship as a boat builder from 1 September "
                "2026. In the first year you will be paid 1,140 pounds per month, and you will go to the college in "
                "Saltmere on Mondays and Tuesdays.\n\nYour mentor will be Walter Quill. Please bring safety shoes; "
                "everything else is provided by the yard.\n\nYours sincerely,\nNoor Hadley, Personnel"
            ]
        ),
    }


def _mail() -> dict[str, bytes]:
    quote = pdf_of(
        [
            "Quotation 5530\n\nThe gearbox ZF 25 for the Merganser costs 2,860 pounds and can be delivered within "
            "nine working days. The guarantee is two years."
        ]
    )
    part = eml_of(
        wrapped(
            "Hello Desmond,\n\nthe old gearbox of the Merganser cannot be repaired, since the housing is cracked. I "
            "attach what a new one costs. The owner, Mrs Vandermeer, wants to sail to Jersey on 20 May, so we should "
            "order it this week.\n\nTariq"
        ),
        subject="Gearbox of the Merganser",
    )
    mails = [
        eml_of(
            "The winter cover of berth 31 is torn again. Could somebody sew it before the rain on Friday?",
            subject="Berth 31",
        ),
        eml_of(
            wrapped(
                "The auditors come on 22 April and not on the 15th, as Helen Marsh told me on the telephone. They "
                "need the stock list of December and all receipts for fuel."
            ),
            subject="Auditors",
        ),
        eml_of("The coffee machine is broken. A new one costs 389 pounds. May I buy it?", subject="Coffee"),
    ]
    return {
        "mail/gearbox.eml": attached(part, "quotation.pdf", quote),
        "mail/complaint.msg": msg_of(
            "Dear Sir or Madam,\r\n\r\nWhen I collected the Petrel on Saturday, the new varnish on the port side had "
            "bubbles, and somebody had left a chisel under the bunk. I ask you to varnish it again before 30 April, "
            "or to return 600 pounds of what I paid.\r\n\r\nLeopold Ashgrove",
            subject="Varnish of the Petrel",
            sender="Leopold Ashgrove",
            sender_address="leopold@example.com",
            to="office@wexcombe.example",
            attached={
                "photo list.txt": b"Photo 1: bubbles at frame 6\nPhoto 2: the chisel under the starboard bunk\n"
            },
        ),
        "mail/inbox.mbox": mbox_of(mails),
        "mail/newsletter.eml": eml_of(
            "# Boat fair\n\nThe Solway Boat Fair takes place from 11 to 14 June in Kirkdale. Stands of nine square "
            "metres cost 840 pounds until 31 March, afterwards 990 pounds.",
            subject="Stands at the fair",
            html_only=True,
        ),
    }


def attached(mail: bytes, name: str, data: bytes) -> bytes:
    """An e-mail with a PDF file attached."""
    from email import message_from_bytes, policy

    message = message_from_bytes(mail, policy=policy.default)
    message.add_attachment(data, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def _staff() -> dict[str, bytes]:
    rota: list[list[object]] = [
        ["Date", "Early", "Late", "Crane"],
        ["Monday 6 April", "Walter Quill", "Mateusz Wrona", "Callum Frith"],
        ["Tuesday 7 April", "Ingrid Solberg", "Tariq Benali", "Callum Frith"],
        ["Wednesday 8 April", "Mateusz Wrona", "Yuki Tanaka", "Desmond Achebe"],
        ["Thursday 9 April", "Tariq Benali", "Walter Quill", "Callum Frith"],
    ]
    overtime: list[list[object]] = [
        ["Name", "January", "February"],
        ["Walter Quill", 11, 6.5],
        ["Callum Frith", 4, 9],
    ]
    holidays = [
        ["Who", "From", "To", "Stand-in"],
        ["Bridget Oyelaran", "4 May", "15 May", "Noor Hadley"],
        ["Ingrid Solberg", "6 July", "24 July", "Yuki Tanaka"],
        ["Mateusz Wrona", "10 August", "21 August", "Walter Quill"],
    ]
    return {
        "staff/rota.xlsx": xlsx_of({"Rota": rota, "Overtime": overtime}),
        "staff/handbook.docx": docx_of(_text("staff/handbook.docx"), title="Handbook"),
        "staff/holidays.ods": ods_of({"2026": holidays}),
    }


def _accounts() -> dict[str, bytes]:
    table = [
        ["Item", "Quantity", "Unit price", "Amount"],
        ["Hatch, 500 mm", "2", "214.00", "428.00"],
        ["Fitting, hours", "7", "46.00", "322.00"],
        ["Sealant", "3", "11.50", "34.50"],
    ]
    prices = [
        ["Service", "Up to 8 m", "8 to 12 m", "Over 12 m"],
        ["Hauling out", "120", "180", "260"],
        ["Winter storage", "540", "830", "1,190"],
        ["Pressure washing", "45", "70", "105"],
        ["Mast stepping", "95", "140", "210"],
    ]
    budget: list[list[object]] = [
        ["Department", "Budget", "Spent", "Responsible"],
        ["Timber", 48000, 31250, "Desmond Achebe"],
        ["Paint", 17500, 9120, "Mateusz Wrona"],
        ["Sails", 22000, 20875, "Ingrid Solberg"],
    ]
    return {
        "accounts/invoice 2304.pdf": pdf_table_of(
            "Invoice 2304",
            ["Date: 19 March 2026", "Customer: Leopold Ashgrove", "Boat: Petrel"],
            table,
            ["Total: 784.50 pounds, payable within 21 days."],
        ),
        "accounts/price list.pdf": pdf_table_of(
            "Prices 2026",
            ["All prices in pounds, with VAT."],
            prices,
            ["Members of the sailing club pay 10 % less."],
        ),
        "accounts/budget.xlsx": xlsx_of({"Budget": budget}),
    }


def _safety() -> dict[str, bytes]:
    inspection = [
        "The crane was inspected on 5 March 2026 by Rowena Pike of Tideway Inspections. It may lift boats of at most "
        "18 tonnes.\n\nThe main cable shows wear at the third drum and has to be replaced before 30 June. The limit "
        "switch was adjusted during the inspection, because it stopped the hook twenty centimetres too late.",
        "The next inspection is due in March 2027. The driver needs a new certificate by November 2028.\n\nThe "
        "inspection took four hours and cost 520 pounds.",
    ]
    return {
        "safety/slipway.html": html_of(_text("safety/slipway.html"), title="Slipway rules", around=True),
        "safety/crane.pdf": pdf_of(inspection, title="Crane inspection", header="Tideway Inspections - page"),
    }


def _sales() -> dict[str, bytes]:
    return {
        "sales/show.pptx": pptx_of(
            [
                ("Spring show", "Doors open on 18 April\nEntry is free\nThree launches in the afternoon", ""),
                (
                    "The new dinghy",
                    "Name: Wagtail 11\nWeight 62 kg\nPrice 7,950 pounds",
                    "Say that the first ten buyers get a trailer for nothing. Yuki drew the hull in eleven weeks.",
                ),
            ]
        ),
        "sales/strategy.odp": odp_of(
            [
                ("Where we are", "Turnover 2025: 1.84 million pounds\n61 % comes from repairs", ""),
                (
                    "Where we go",
                    "A second shed by 2028\nMore charter boats",
                    "The bank wants 30 % of the costs of the shed from our own funds.",
                ),
            ]
        ),
        "sales/history.epub": epub_of(
            [
                "# Beginnings\n\nThe yard was founded in 1911 by Ezekiel Strand, who built pilot cutters for the port. "
                "His first boat, the Constance, still sails.",
                "# The fire\n\nIn 1953 the great shed burned down. It was built again in eight months with timber from "
                "a wrecked barque.",
            ],
            title="A short history",
        ),
        "sales/about.xhtml": html_of(_text("sales/about.xhtml"), title="About us"),
    }


def _office() -> dict[str, bytes]:
    old = {
        "lease.txt": wrapped(
            "The café on the quay is let to Marguerite Fontaine until 30 September 2029. The rent is 1,350 pounds per "
            "month, and she may put twelve tables outside."
        ).encode(),
        "keys.csv": b"Key,Door,Holder\n7,Paint shed,Mateusz Wrona\n12,Sail loft,Ingrid Solberg\n15,Fuel "
        b"store,Tariq Benali\n",
    }
    survey = [
        ["Part", "Condition", "Advice"],
        ["Keel bolts", "two of nine corroded", "renew within a year"],
        ["Rudder", "good", "none"],
        ["Garboard", "soft for 60 cm", "replace now"],
    ]
    moorings: list[list[object]] = [
        ["Berth", "Boat", "Owner", "Length in m", "Paid until"],
        [12, "Avocet", "Wexcombe Boatyard", 11.3, ""],
        [17, "Curlew", "Adaeze Nwosu", 9.1, "31 October 2026"],
        [24, "Petrel", "Leopold Ashgrove", 8.4, "30 June 2026"],
        [31, "Merganser", "Johanna Vandermeer", 12.7, "31 December 2026"],
    ]
    return {
        "office/old papers.zip": zip_of(old),
        "office/archive.tar.gz": tar_of(
            {
                "1998.txt": b"In 1998 the yard bought the travelling hoist from a yard in Brest for 54,000 francs."
            },
            "gz",
        ),
        "customers/moorings.xlsx": xlsx_of({"Moorings": moorings}),
        "customers/survey.docx": docx_of(_text("customers/survey.docx"), table=survey),
        "scans/delivery note.png": picture_of(
            [
                "DELIVERY NOTE 77120",
                "Bellweather Paints, Poole",
                "To: Wexcombe Boatyard",
                "Delivered on 24 March 2026",
                "16 tins of antifouling, red",
                "Received by: Mateusz Wrona",
            ]
        ),
        "scans/permit.pdf": picture_of(
            [
                "FUEL PERMIT",
                "Holder: Wexcombe Boatyard Ltd",
                "Permit number: FP 30916",
                "Largest amount: 4,500 litres",
                "Valid until 8 October 2027",
            ],
            "PDF",
        ),
    }


def make_firm(folder: Path, novel_text: str | None = None) -> int:
    """Write the files of the firm; returns their number, without those that programs leave behind."""
    groups: tuple[Callable[[], dict[str, bytes]], ...] = (
        _letters,
        _mail,
        _staff,
        _accounts,
        _safety,
        _sales,
        _office,
    )
    as_they_are = (path for path in sorted(_FILES.rglob("*")) if path.is_file() and len(path.suffixes) < 2)
    files = {path.relative_to(_FILES).as_posix(): path.read_bytes() for path in as_they_are}
    files |= {name: data for group in groups for name, data in group().items()}
    files["reading/novel.txt"] = (novel_text or novel()).encode()
    left_behind = {
        "staff/~$ndbook.docx": b"\x05Noor" + bytes(157),
        "scans/Thumbs.db": bytes(512),
        ".DS_Store": b"Bud1",
    }
    for name, data in (files | left_behind).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len(files)
