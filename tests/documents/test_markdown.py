"""Markdown without its markup; headings are places."""

import pytest

from attar.errors import FormatError
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


def test_what_is_nested_too_deep_is_refused(one):
    with pytest.raises(FormatError, match="nested more than 100 deep"):
        one("a.md", b">" * 5_000 + b" deep\n\nLast paragraph.")
