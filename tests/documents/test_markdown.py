"""Markdown without its markup; headings are places."""

import pytest

from tests.documents.conftest import place_of

PAGE = """---
title: "Choir, spring"
date: 2026-02-01
---
# The *choir*

Ann **Lee** sings [alto](https://example.org/alto "title"), `tobias` plays.
It goes
on.

- first item
- second item

> A quotation.

| name | part |
|------|------|
| Ann  | alto |

![a picture](x.png) <b>bold</b> & more

<div>In a block &amp; so on</div>

Plan
----

```
code stays
```
"""


def test_markup_is_removed_and_words_stay(one):
    document = one("choir.md", PAGE.encode())
    assert document.text.split("\n\n") == [
        "The choir",
        "Ann Lee sings alto, tobias plays.\nIt goes\non.",
        "first item",
        "second item",
        "A quotation.",
        "The part of Ann is alto.",
        "a picture bold & more",
        "In a block & so on",
        "Plan",
        "code stays",
    ]


def test_title_date_and_headings_are_kept(one):
    document = one("choir.md", PAGE.encode())
    assert (document.name, document.title, document.date) == ("choir.md", "Choir, spring", "2026-02-01")
    assert place_of(document, "alto") == "The choir"
    assert place_of(document, "code stays") == "Plan"


@pytest.mark.parametrize("mark", ["", "    ", "```\n"], ids=["a paragraph", "indented", "fenced"])
def test_columns_of_spaces_are_a_table(one, mark):
    lines = (
        "name     price   year",
        "apple    3       2001",
        "pear     4       2002",
        "plum     5       2003",
    )
    text = "\n".join(lines) if mark.startswith("`") else "\n".join(f"{mark}{line}" for line in lines)
    document = one("a.md", f"{mark if mark.startswith('`') else ''}{text}".encode())
    assert document.text.split("\n\n")[1] == "The price of pear is 4. The year of pear is 2002."


def test_a_table_with_long_cells_is_one(one):
    document = one("a.md", b"| name | life |\n|--|--|\n| Ann | " + b"long " * 100 + b"|\n| Bob | short |\n")
    assert document.text.endswith("The life of Bob is short.")


def test_line_breaks_of_html_part_words(one):
    document = one("a.md", b"Ann<br>left.\n\n| name | seen |\n|--|--|\n| Ann | May<BR />June |\n")
    assert document.text == "Ann\nleft.\n\nThe seen of Ann is May June."


def test_the_title_is_the_first_heading_with_words(one):
    assert one("a.md", b"# \n\n## Choir\n\nAnn sings.").title == "Choir"


def test_what_is_nested_too_deep_is_read_with_its_marks(one):
    document = one("a.md", b">" * 5_000 + b" deep\n\nLast paragraph.")
    assert document.text.endswith("> deep\n\nLast paragraph.")
