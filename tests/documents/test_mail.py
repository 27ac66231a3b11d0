"""E-mails: headers as sentences, quotations and signatures as places, attachments as documents."""

from email import message_from_bytes, policy

import pytest

from attar.errors import FormatError
from benchmarks.document_files import eml_of, mbox_of, pdf_of
from tests.documents.conftest import TEXT, place_of, recovered

INTRODUCTION = (
    "This e-mail was sent by Ann Lee (ann@example.org). It was sent to Bob Ray (bob@example.org) "
    "on Wednesday 4 March 2026 at 14:05."
)


def test_headers_read_as_sentences(one):
    document = one("a.eml", eml_of("Dear Bob,\n\nthe rent is due.", subject="The rent"))
    assert document.text.split("\n\n") == [
        INTRODUCTION,
        "Subject: The rent.",
        "Dear Bob,",
        "the rent is due.",
    ]
    assert (document.name, document.title, document.date) == (
        "a.eml",
        "The rent",
        "2026-03-04T14:05:00+00:00",
    )
    assert document.parts == ()


@pytest.mark.parametrize("html_only", [False, True], ids=["plain", "html"])
def test_all_words_of_a_text_are_recovered(one, html_only):
    assert recovered(one("a.eml", eml_of(TEXT, html_only=html_only)).text, TEXT.replace("# ", "")) == 1.0


REPLY = """Yes, on Friday.

On Tue, 3 Mar 2026 at 10:00, Bob Ray <bob@example.org> wrote:

> When will you
>> ever pay?

See you then.

--
Ann Lee
Treasurer, 0117 496 0182
"""


def test_quoted_parts_and_signatures_are_places(one):
    document = one("a.eml", eml_of(REPLY))
    assert "> When" not in document.text
    assert place_of(document, "Friday") == ""
    assert place_of(document, "When will you") == "quoted message"
    assert place_of(document, "On Tue, 3 Mar") == "quoted message"
    assert place_of(document, "See you") == ""
    assert place_of(document, "0117") == "signature"


def test_a_forwarded_message_is_quoted_to_the_end(one):
    document = one("a.eml", eml_of("See below.\n\n-----Original Message-----\nFrom: Eve\n\nThe key is red."))
    assert place_of(document, "The key is red") == "quoted message"


def test_attachments_are_named_and_those_that_cannot_be_read_are_reported(read):
    faults = []
    (document,) = read(
        "a.eml", eml_of("See the plan.", attached=["plan.pdf", "plan.bin"]), on_bad=faults.append
    )
    assert document.text.endswith("Attachments: plan.pdf, plan.bin.")
    assert [str(fault).partition(" is not ")[0].rpartition("/")[2] for fault in faults] == ["a.eml: plan.pdf"]


def test_attachments_are_documents_of_their_own(read):
    message = message_from_bytes(eml_of("See the plan.", subject="Plan"), policy=policy.default)
    message.add_attachment(pdf_of(["Bob came."]), maintype="application", subtype="pdf", filename="plan.pdf")
    message.add_attachment(b"PNG", maintype="image", subtype="png", filename="logo.png", cid="<1>")
    mail, plan = read("a.eml", message.as_bytes())
    assert (plan.name, plan.title, plan.text) == ("a.eml/plan.pdf", "plan.pdf, attached to Plan", "Bob came.")
    assert mail.text.endswith("Attachments: plan.pdf, logo.png.")
    _, same = read("in.mbox", mbox_of([message.as_bytes()]))
    assert same.name == "in.mbox-1/plan.pdf"


def test_each_message_of_an_mbox_file_is_a_document(read):
    first, second = (
        eml_of("One.\n\nFrom here on it rains.", subject="First"),
        eml_of("Two.", subject="Second"),
    )
    documents = read("in.mbox", mbox_of([first, second]))
    assert [(each.name, each.title) for each in documents] == [
        ("in.mbox-1", "First"),
        ("in.mbox-2", "Second"),
    ]
    assert documents[0].text.endswith("\n\nFrom here on it rains.")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.eml", b"", "is empty"),
        ("a.eml", b"\n\nJust a text.", "has no headers of an e-mail"),
        ("a.mbox", b"Ann left.", "is not an mbox file"),
        ("a.mbox", b"\n", "has no e-mails"),
    ],
)
def test_what_is_no_mail_is_refused(read, name, data, message):
    with pytest.raises(FormatError, match=message):
        read(name, data)
