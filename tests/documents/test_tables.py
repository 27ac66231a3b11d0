"""Tables as sentences: each cell says of what it is."""

import pytest

from attar.documents.tables import row_texts, with_tables


def texts(*rows: str, header: bool | None = None) -> list[str]:
    return [row.text for row in row_texts([row.split("|") for row in rows], header)]


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (
            ("Course|Person|Until", "First aid|Ann|May", "First aid|Bob|June"),
            "The course of Ann is First aid. The until of Ann is May.",
        ),
        (
            ("Berth|Boat|Length", "12|Avocet|11.3", "17|Curlew|9.1"),
            "The berth of Avocet is 12. The length of Avocet is 11.3.",
        ),
        (
            ("Key|Door|Holder", "7|Shed|Ann", "12|Shed|Ann"),
            "The door of Key 7 is Shed. The holder of Key 7 is Ann.",
        ),
        (
            ("Day|Room|Hour|Class", "Monday|B|9|French", "Monday|A|9|French", "Friday|A|9|Greek"),
            "The hour of Monday, B is 9. The class of Monday, B is French.",
        ),
        (("a|b|c", "x|y|z", "x|y|z"), "a: x; b: y; c: z."),
        (("Name|Phone|Room", "Ann|12|", "Bob||"), "The phone of Ann is 12."),
    ],
    ids=["column that tells rows apart", "words", "numbers", "several columns", "no key", "empty cells"],
)
def test_a_cell_is_said_of_the_key_of_its_row(rows, first):
    assert texts(*rows)[0] == first


def test_a_column_that_a_program_named_is_said_in_words():
    assert texts("name|due_date|paid", "Ann|3 May|yes", "Bob|4 May|no")[0] == (
        "The due date of Ann is 3 May. The paid of Ann is yes."
    )


def test_a_code_or_date_is_said_with_what_it_stands_for():
    assert texts("Code|Job|Charge", "R1|Lost key|14.00", "R2|Lost fob|22.50")[1] == (
        "The job of R2 is Lost fob. The charge of Lost fob (R2) is 22.50."
    )
    assert texts("Day|First call|Van", "6 April|Ann|white", "13 April|Bob|blue", "20 April|Ann|blue")[0] == (
        "The first call on 6 April is Ann. The van on 6 April is white."
    )


def test_a_time_table_says_what_is_when():
    assert texts("Time|Monday|Tuesday", "8:50|Art|Music", "9:50|French|Art")[0] == (
        "On Monday at 8:50 is Art. On Tuesday at 8:50 is Music."
    )


def test_years_name_columns():
    assert texts("Heading|2025-26|2026-27", "Rent|900|950", "Heating|81|94")[0] == (
        "Rent in 2025-26 is 900. Rent in 2026-27 is 950."
    )


def test_a_long_cell_is_a_text_of_its_own():
    long = "The roof leaks in winter, and water runs along the beam until it drops on the desk of Mrs Bell, daily."
    assert (
        texts("Room|Floor|Remark", f"Hall|1|{long}", "Loft|3|")[0]
        == f"The floor of Hall is 1. Hall, Remark: {long}"
    )


def test_a_large_table_has_one_sentence_per_row():
    rows = (f"P{at}|{at}|{'yes' * (at % 2)}" for at in range(200))
    assert texts("Name|Age|Member", *rows)[:2] == ["P0 (age 0).", "P1 (age 1, member yes)."]


def test_columns_in_a_text_are_a_table():
    text = "Item        Qty   Price\nDesk          1  120.00\nLamp, red    12   35.50\nTotal           546.00\nThanks"
    assert list(with_tables(text)) == [
        "The qty of Desk is 1. The price of Desk is 120.00.",
        "The qty of Lamp, red is 12. The price of Lamp, red is 35.50.",
        "The price of Total is 546.00.",
        "Thanks",
    ]


def test_drawn_lines_are_no_rows():
    text = "Work       Hours   Pounds\n-------------------------\nHedge         12   288.00\nLawn           5   120.00"
    assert list(with_tables(text))[1] == "The hours of Lawn is 5. The pounds of Lawn is 120.00."


def test_rows_of_their_own_paragraphs_have_cells_of_several_lines():
    text = "Article   Qty   Price\n\nSheet,\n          12    8.40\nsingle\n\nTowel     80    6.75"
    assert next(with_tables(text)) == "The qty of Sheet, single is 12. The price of Sheet, single is 8.40."


def test_dots_lead_from_a_label_to_its_value():
    assert list(with_tables("Beard trim ........ 11.50")) == ["Beard trim: 11.50"]


def test_labels_beside_an_address_are_no_table():
    text = "Bill to:      No.:   7\nAnn Lee       Date:  3 May\nLong Lane 2   Job:   12\nHull          Foreman: Bob"
    assert list(with_tables(text)) == [
        "Bill to:\nAnn Lee\nLong Lane 2\nHull\n\nNo.:   7\nDate:  3 May\nJob:   12\nForeman: Bob"
    ]


def test_blocks_under_labels_side_by_side_are_read_one_after_the_other():
    text = "From:         To:\nAnn Lee       Bob Ray\nLong Lane 2   The Forge\n              Hull\n\nThanks   a  lot"
    assert list(with_tables(text)) == [
        "From: Ann Lee, Long Lane 2\n\nTo: Bob Ray, The Forge, Hull\n\n\nThanks   a  lot"
    ]


def test_the_column_of_keys_needs_no_name():
    text = "            Hours    Price\nHedge          12    24.00\nLawn, front    10    12.50"
    assert list(with_tables(text))[1] == "The hours of Lawn, front is 10. The price of Lawn, front is 12.50."


def test_names_of_columns_take_two_lines():
    text = "          Low    High\n          (May) (July)\nTent     9.00   13.50\nCabin   40.00   55.00"
    assert next(iter(with_tables(text))) == "The low (May) of Tent is 9.00. The high (July) of Tent is 13.50."


@pytest.mark.parametrize(
    "text",
    [
        "Ann left.  Bob came.  Eve stayed.\nDan slept.  Kim ran.  Lee sang.\nA  b  c\nd  e  f",
        "one  two\n1  2\n3  4\n5  6",
        "Name:          Date:\nAddress:       Phone:\nRemarks:       Signed:",
        "Subtotal    517.00\nVAT          98.23\nTotal       589.38\n\nName   A\nTown   B",
    ],
    ids=["prose", "two columns", "a form that is not filled in", "labels and values"],
)
def test_other_columns_are_left_as_they_are(text: str) -> None:
    assert list(with_tables(text)) == [text]
