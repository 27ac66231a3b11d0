"""Tables in columns of spaces as sentences, and blocks that stand side by side one after the other."""

import pytest

from attar.documents.columns import with_tables


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
    text = "            Hours    Price\nHedge           2    24.00\nLawn, front     1    12.50"
    assert list(with_tables(text))[1] == "The hours of Lawn, front is 1. The price of Lawn, front is 12.50."


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
