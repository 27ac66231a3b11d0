"""E-mails: headers as sentences, quotations and signatures as places, attachments as documents."""

from email import message_from_bytes, policy

import pytest

from attar.documents.workers import read_sources
from attar.errors import FormatError
from tests.documents.conftest import place_of
from tests.documents.document_files import eml_of, mbox_of, pdf_of
from tests.documents.office_files import msg_of, msg_storage

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


def test_mbox_files_of_two_folders_have_two_names(tmp_path):
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in.mbox").write_bytes(mbox_of([eml_of("One.")]))
    names = [document.name for document in read_sources([tmp_path])]
    assert names == ["home/in.mbox-1", "work/in.mbox-1"]


def test_messages_after_a_damaged_one_are_read(read):
    faults = []
    first, second = eml_of("One.", subject="First"), eml_of("Two.", subject="Second")
    documents = read("in.mbox", mbox_of([first, b"\nno headers\n", second]), on_bad=faults.append)
    assert [document.title for document in documents] == ["First", "Second"]
    assert [str(fault).partition(" has ")[0] for fault in faults] == ["in.mbox, message 2"]


@pytest.mark.parametrize("charset", ["undefined", "punycode", "no-such-charset"])
def test_a_text_with_a_wrong_charset_is_read(one, charset):
    mail = f"From: a@b\nContent-Type: text/plain; charset={charset}\n\nAnn left.\n"
    assert one("a.eml", mail.encode()).text.endswith("Ann left.")


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


def test_an_outlook_message_and_its_attachments(read):
    attached = {
        "list.txt": b"Bob came.",
        "quote.pdf": pdf_of(["It costs 12 pounds. " * 400]),
        "logo.bin": b"\1",
    }
    data = msg_of(
        "Ann left.", subject="Varnish", sender="Ann", sender_address="a@x.org", to="Bob", attached=attached
    )
    mail, *files = read("a.msg", data)
    assert mail.text.split("\n\n") == [
        "This e-mail was sent by Ann (a@x.org). It was sent to Bob on Wednesday 4 March 2026 at 14:05.",
        "Subject: Varnish.",
        "Ann left.",
        "Attachments: list.txt, quote.pdf, logo.bin.",
    ]
    assert (mail.title, mail.date) == ("Varnish", "2026-03-04T14:05:00+00:00")
    assert [(file.name, file.title) for file in files] == [
        ("a.msg/list", "list.txt, attached to Varnish"),
        ("a.msg/quote.pdf", "quote.pdf, attached to Varnish"),
    ]


def test_a_message_that_is_attached_to_one_of_outlook_is_read(read):
    people = {"sender": "Ann", "sender_address": "a@x.org", "to": "Bob"}
    inner = msg_storage(
        "The van is blue.", subject="Van", attached={"list.txt": b"Eve came.", "old": b"\1"}, **people
    )
    data = msg_of("See below.", subject="Fw", attached={"Van": inner}, **people)
    documents = read("a.msg", data)
    assert [(each.name, each.title) for each in documents] == [
        ("a.msg", "Fw"),
        ("a.msg/Van.msg", "Van"),
        ("a.msg/Van.msg/list", "list.txt, attached to Van"),
    ]
    assert "\n\nThe van is blue.\n\n" in documents[1].text


def nested_mail(depth: int) -> bytes:
    """A message with a message attached, which has a message attached, and so on."""
    data = eml_of("The innermost.", subject="0")
    for number in range(1, depth):
        message = message_from_bytes(eml_of(f"Number {number}.", subject=str(number)), policy=policy.default)
        message.add_attachment(message_from_bytes(data, policy=policy.default))
        data = message.as_bytes()
    return data


def test_attachments_nested_ten_deep_are_one_clear_line(read):
    faults = []
    documents = read("a.eml", nested_mail(10), on_bad=faults.append)
    assert [document.name for document in documents] == [
        "a.eml",
        "a.eml/8.eml",
        "a.eml/8.eml/7.eml",
        "a.eml/8.eml/7.eml/6.eml",
    ]
    (fault,) = map(str, faults)
    assert fault.endswith("5.eml is attached to a message within 3 others; save it first")
