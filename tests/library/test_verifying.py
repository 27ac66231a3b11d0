"""Whether a library says a sentence, and where."""

import pytest

from attar.errors import FormatError, OptionError, UnknownDocumentError
from attar.library.library import Library
from attar.results import Difference, Subset

LETTER = "Dear Ann. The harbour closes on 3 November, not before. Yours, Bob."
NOTE = "The harbour closes on 9 November. Tea is at four."


@pytest.fixture
def library(folder, reader):
    with Library(folder, reader) as library:
        library.add("letter", LETTER, tags=["sent"])
        library.add("note", NOTE)
        yield library


def test_word_for_word(library):
    verified = library.verify("the harbour closes on 3 november")
    (passage,) = verified.passages
    assert (verified.verdict, passage.document, passage.differences) == ("found", "letter", [])
    assert LETTER[passage.start : passage.end] == passage.text == "The harbour closes on 3 November"


def test_nearly_with_the_differences_of_each_place(library):
    verified = library.verify("The harbour closes on 5 November")
    assert verified.verdict == "nearly"
    assert {passage.document: passage.differences for passage in verified.passages} == {
        "letter": [Difference("5", "3")],
        "note": [Difference("5", "9")],
    }


def test_only_a_subset(library):
    verified = library.verify("The harbour closes on 3 November", within=Subset(names=("note",)))
    assert [passage.document for passage in verified.passages] == ["note"]
    with pytest.raises(UnknownDocumentError, match="no document 'nobody'"):
        library.verify("Tea is at four", within=Subset(names=("nobody",)))
    with pytest.raises(OptionError, match="no document has the tag 'paid'"):
        library.verify("Tea is at four", within=Subset(tags=("paid",)))


def test_texts_that_are_not_kept_are_counted(folder, reader):
    with Library(folder, reader, keep_text=False) as library:
        library.add("note", NOTE)
        verified = library.verify("Tea is at four")
    assert (verified.verdict, verified.unchecked) == ("absent", 1)


@pytest.mark.parametrize("quote", ["", "?!", "word " * 1_001])
def test_what_is_no_quote_is_refused(library, quote):
    with pytest.raises(FormatError, match="quote: expected"):
        library.verify(quote)
