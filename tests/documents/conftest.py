"""Files of many kinds, read as `attar add` reads them."""

import re
from collections import Counter
from collections.abc import Callable

import pytest

from attar.documents.extracted import SourceDocument
from tests.documents.document_files import read_here

TEXT = """To all members of the Harbour Street choir

# Rehearsals

From Monday 2 February we rehearse at 19:30 instead of 20:15, in the hall of St. Mary's. The pianist, Tobias Finch, \
will be there from seven o'clock. In return the rehearsal on Saturday mornings ends.

Bring a pencil; copies of the Brahms cost 12.50 each and are paid to Agnes Pell.

# Concert

The concert is on 14 June in Saltmere. Tickets can be had from Ruth Adler, 0117 496 0182, or at the door."""


@pytest.fixture
def read() -> Callable[..., list[SourceDocument]]:
    """The documents of a file with a name and bytes."""
    return lambda name, data, **options: [*read_here(name, data, **options)]


@pytest.fixture
def one(read) -> Callable[..., SourceDocument]:
    """The only document of a file."""

    def document(name: str, data: bytes) -> SourceDocument:
        (found,) = read(name, data)
        return found

    return document


def recovered(text: str, given: str) -> float:
    """The share of a text's words that another has, as often."""
    wanted, got = (Counter(re.findall(r"\w+", each)) for each in (given, text))
    return (wanted & got).total() / wanted.total()


def place_of(document: SourceDocument, phrase: str) -> str:
    """The label of the part that a phrase stands in."""
    at = document.text.index(phrase)
    return next((label for start, label in reversed(document.parts) if start <= at), "")
