"""Tables as sentences: each cell says of what it is."""

import pytest

from attar.documents.tables import row_texts


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
