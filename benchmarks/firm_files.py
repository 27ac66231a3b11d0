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
    json_lines_of,
    mbox_of,
    pdf_of,
    pdf_table_of,
    tar_of,
    xlsx_of,
    zip_of,
)
from benchmarks.office_files import msg_of, odp_of, ods_of, odt_of, picture_of, pptx_of, rtf_of
from benchmarks.stories import tell_stories

_HARBOUR_MASTER = """Wexcombe Boatyard Ltd
The Quay, Wexcombe

9 February 2026

Dear Captain Orde,

I am writing about the dredging of the inner channel. At low water on Sunday we measured only 1.4 metres at the \
second beacon, which is forty centimetres less than in October. Two of our customers touched the ground in January, \
and the Sea Lark had to be pulled off by the pilot boat.

We ask the port to dredge before the season begins on 3 April, because larger boats cannot reach our slipway \
otherwise. Our foreman, Desmond Achebe, can show your surveyor the marks whenever it suits him.

In return we offer to store the pontoons of the port in our shed until the end of March, free of charge.

Yours sincerely,
Philippa Strand
Managing Director"""

_HANDBOOK = """# Working hours

The yard is open from 7:30 to 16:30 on weekdays. On Saturdays two people keep the office open until noon.

# Holidays

Everybody has 27 days of holiday per year. Requests go to Noor Hadley at least three weeks in advance. Nobody can be \
away in the last two weeks of March, because all boats are launched then.

# Sickness

Whoever is ill calls the office before 8:15. A doctor's note is needed from the fourth day on.

# Tools

Tools that are borrowed over night are written into the green book next to the door. Diamond blades stay in the yard."""


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
    letter = wrapped(_HARBOUR_MASTER).encode()
    draft = _HARBOUR_MASTER.replace("Captain Orde", "Sir or Madam").replace(
        "In return we offer", "In return we are happy"
    )
    return {
        "letters/harbour master.txt": letter,
        "letters/harbour master (copy).txt": letter,
        "letters/old/harbour master.txt": letter,
        "letters/harbour master draft.docx": docx_of(draft),
        "letters/insurance.docx": docx_of(
            "Policy 88-4471-WB\n\nDear Ms Strand,\n\nWe have received your claim for the damage that the storm of "
            "17 January did to the roof of the paint shed. Our assessor, Gareth Llewellyn, will visit you on "
            "26 February at ten o'clock. Please leave the torn sheets where they are until then.\n\nThe excess of "
            "your policy is 750 pounds. Damage to boats of customers is covered by their own insurance.\n\n"
            "Kind regards,\nMeridian Marine Insurance"
        ),
        "letters/council.odt": odt_of(
            "# Planning permission\n\nYour application for a new crane foundation (reference PL/2026/0318) was "
            "approved on 12 March. Work may take place between 8:00 and 18:00, on weekdays only.\n\nThe old lime "
            "tree at the gate is protected and must not be cut. A fee of 462 pounds is due within thirty days."
        ),
        "letters/teak.rtf": rtf_of(
            "Nordholm Timber\n\nDear Desmond,\n\nThe teak that you ordered is delayed, because the ship waits for a "
            "berth in Rotterdam. We now expect it in week 14. If you can use iroko instead, we have 3.2 cubic metres "
            "in the warehouse at Hull, 18 % cheaper.\n\nBest wishes,\nSøren Kjær"
        ),
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
        "mail/gearbox.eml": _attached(part, "quotation.pdf", quote),
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


def _attached(mail: bytes, name: str, data: bytes) -> bytes:
    from email import message_from_bytes, policy

    message = message_from_bytes(mail, policy=policy.default)
    message.add_attachment(data, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def _staff() -> dict[str, bytes]:
    people = [
        ("Philippa Strand", "Managing Director", "101", "Office 1", "white Volvo"),
        ("Noor Hadley", "Personnel", "104", "Office 2", ""),
        ("Desmond Achebe", "Foreman", "120", "Workshop", "grey pickup"),
        ("Tariq Benali", "Engines", "123", "Engine room", "bicycle"),
        ("Walter Quill", "Boat builder", "125", "Workshop", "blue van"),
        ("Ingrid Solberg", "Sails", "131", "Loft", "red Fiat"),
        ("Mateusz Wrona", "Paint", "128", "Paint shed", ""),
        ("Bridget Oyelaran", "Accounts", "106", "Office 3", "green Skoda"),
        ("Callum Frith", "Crane", "140", "Slipway", "motorcycle"),
        ("Yuki Tanaka", "Design", "133", "Loft", ""),
    ]
    phones = "Name,Job,Extension,Room,Vehicle\n" + "".join(",".join(row) + "\n" for row in people)
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
    cards = "".join(
        f"BEGIN:VCARD\r\nVERSION:3.0\r\nN:{name.split()[1]};{name.split()[0]};;;\r\nFN:{name}\r\nORG:{firm}\r\n"
        f"TITLE:{job}\r\nTEL;TYPE=CELL:{phone}\r\nEMAIL;TYPE=INTERNET:{mail}\r\nEND:VCARD\r\n"
        for name, firm, job, phone, mail in (
            ("Søren Kjær", "Nordholm Timber", "Sales", "+45 20 55 01 77", "soren@nordholm.example"),
            ("Helen Marsh", "Marsh & Dale", "Auditor", "07700 900418", "h.marsh@marshdale.example"),
            (
                "Gareth Llewellyn",
                "Meridian Marine Insurance",
                "Assessor",
                "07700 900533",
                "gl@meridian.example",
            ),
        )
    )
    return {
        "staff/phones.csv": phones.encode(),
        "staff/rota.xlsx": xlsx_of({"Rota": rota, "Overtime": overtime}),
        "staff/handbook.docx": docx_of(_HANDBOOK, title="Handbook"),
        "staff/holidays.ods": ods_of({"2026": holidays}),
        "staff/contacts.vcf": cards.encode(),
        "staff/training.tsv": (
            b"Course\tPerson\tValid until\nFirst aid\tIngrid Solberg\t31 May 2027\nFork lift\tCallum Frith\t"
            b"2 November 2028\nWelding\tTariq Benali\t14 August 2026\nFirst aid\tMateusz Wrona\t9 January 2028\n"
        ),
        "staff/first-aid.md": (
            b"# First aid\n\n- Boxes: workshop, paint shed, crane cabin\n- Eye wash: next to the acid cupboard\n"
            b"- Defibrillator: entrance of Office 1\n\nThe boxes are checked by **Ingrid Solberg** on the first "
            b"Monday of each month.\n"
        ),
    }


def _accounts() -> dict[str, bytes]:
    invoice = (
        "WEXCOMBE BOATYARD LTD\nThe Quay, Wexcombe WX4 2QA\n\nINVOICE\n\nInvoice number: 2291\nInvoice date: 27 "
        "February "
        "2026\nCustomer: Adaeze Nwosu\nBoat: Curlew\nPayment due: 29 March 2026\n\nHauling out             180.00\n"
        "Antifouling             412.50\nNew anodes               96.00\n\nSubtotal                688.50\nVAT "
        "20%        "
        "         137.70\nTotal due               826.20\n\nSort code: 40-17-88\nAccount number: 31926650\n"
    )
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
    suppliers = (
        "Supplier;Goods;Town;Days to pay\nNordholm Timber;teak and iroko;Hull;30\nBellweather "
        "Paints;antifouling;Poole;14\n"
        "Kestrel Chandlery;ropes and shackles;Falmouth;21\nHaldane Metals;anodes and keels;Leith;45\n"
    )
    return {
        "accounts/invoice 2291.txt": invoice.encode(),
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
        "accounts/suppliers.csv": suppliers.encode(),
        "accounts/bank.json": (
            b'{"bank": "Lowther & Sons", "overdraft": {"limit": "60,000 pounds", "rate": "7.4 %"}, "signatories": '
            b'["Philippa Strand", "Bridget Oyelaran"], "branch": {"town": "Saltmere", "phone": "01632 960414"}}'
        ),
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
        "safety/fire.md": (
            b"# Fire\n\n## Alarm\n\nPress the red button and call 112. Then go to the meeting point at the "
            b"flagpole.\n\n"
            b"## Why we stopped using the stove in the loft\n\nSparks from its chimney burned holes into a customer's "
            b"sail in 2023.\n\n## Drills\n\nNext drill: Thursday 16 April, 14:00\nResponsible: Callum Frith\n"
        ),
        "safety/slipway.html": html_of(
            "# Slipway\n\nThe slipway is 42 metres long and may be used two hours before and after high water.\n\n"
            "# Rules\n\nNobody stands behind the winch while it pulls. Children under 14 must be accompanied by an "
            "adult.",
            title="Slipway rules",
            around=True,
        ),
        "safety/crane.pdf": pdf_of(inspection, title="Crane inspection", header="Tideway Inspections - page"),
        "safety/accidents.log": (
            b"2026-01-14 09:20 Walter Quill cut his left thumb with a spokeshave; three stitches\n"
            b"2026-02-03 15:45 Mateusz Wrona slipped on the icy slipway; bruised knee\n"
            b"2026-03-11 11:05 a visitor bumped into the bowsprit of the Avocet; no injury\n"
        ),
        "safety/chemicals.html": (
            b"<html><body><h1>Chemicals</h1><table><tr><th>Substance</th><th>Stored "
            b"in</th><th>Amount</th><th>Gloves</th>"
            b"</tr><tr><td>Epoxy hardener</td><td>cabinet C</td><td>40 litres</td><td>nitrile</td></tr><tr><td>Acetone"
            b"</td><td>cabinet A</td><td>25 litres</td><td>butyl</td></tr><tr><td>Oxalic acid</td><td>cabinet D</td>"
            b"<td>6 kilograms</td><td>rubber</td></tr></table></body></html>"
        ),
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
        "sales/boats.jsonl": json_lines_of(
            {
                "avocet": "The Avocet is a ketch of 11.3 metres, built in 1978. She is for sale for 38,500 pounds and "
                "lies at berth 12.",
                "dunlin": "The Dunlin is a gaff cutter of 7.6 metres, built in 1934. Her engine was overhauled "
                "in 2024, "
                "and she costs 21,000 pounds.",
            }
        ),
        "sales/about.xhtml": html_of(
            "Wexcombe Boatyard has repaired wooden boats for more than a century. We employ 14 people and launch about "
            "ninety boats per year. Visitors are welcome on Fridays.",
            title="About us",
        ),
    }


def _office() -> dict[str, bytes]:
    calendar = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//yard//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260427T170000\r\n"
        "DTEND:20260427T183000\r\nSUMMARY:Works council\r\nLOCATION:Loft\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:2\r\n"
        "DTSTART;VALUE=DATE:20260512\r\nSUMMARY:Delivery of the new band saw\r\nDESCRIPTION:Keep the gate free\\, the "
        "lorry has 40 tonnes.\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
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
        "office/calendar.ics": calendar.encode(),
        "office/alarm.yaml": b"alarm:\n  company: Sentry North\n  phone: 01632 960870\n  arm_at: '19:00'\n"
        b"cameras:\n  - gate\n  - slipway\n  - fuel store\n",
        "office/minutes march.md": (
            b"# Meeting of 10 March\n\nPresent: Philippa, Noor, Desmond, Bridget\n\nBridget reported that 14 invoices "
            b"are overdue, together 9,730 pounds. Desmond wants a second-hand fork lift and will ask for "
            b"prices. It was "
            b"decided to close the yard on 2 May, since the town holds its regatta.\n\nNext meeting: Tuesday 14 April\n"
        ),
        "office/minutes april.txt": (
            b"MINUTES\n\nPresent: Philippa Strand, Bridget Oyelaran, Callum Frith\nApologies: Noor "
            b"Hadley\n\nDecisions\n\n"
            b"- Buy the fork lift of Haldane Metals for 6,200 pounds\n- Paint the sign at the gate dark blue\n"
            b"- Ask the port again about dredging\n\nNext meeting: Monday 11 May\n"
        ),
        "office/wifi.txt": b"Guest network: WexGuest\nPassword: tern-41-spinnaker\n\nPrinter: second floor, "
        b"next to the "
        b"loft\nPrinter PIN: 7702\n",
        "office/old papers.zip": zip_of(old),
        "office/archive.tar.gz": tar_of(
            {
                "1998.txt": b"In 1998 the yard bought the travelling hoist from a yard in Brest for 54,000 francs."
            },
            "gz",
        ),
        "office/NOTES": b"Ask Yuki about the drawings of the Wagtail 14. The mould is stored in container 3.\n",
        "office/recycling.rst": b"Recycling\n=========\n\nOld batteries are collected every second Wednesday by "
        b"Greenhold. "
        b"Used oil goes into the yellow drum.\n",
        "customers/moorings.xlsx": xlsx_of({"Moorings": moorings}),
        "customers/survey.docx": docx_of(
            "# Survey of the Curlew\n\nThe Curlew was surveyed on 21 January 2026 by Ambrose Tillotson, who found her "
            "sound apart from the garboard strake.",
            table=survey,
        ),
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
    files = {name: data for group in groups for name, data in group().items()}
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
