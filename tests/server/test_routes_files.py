"""The route that takes files: POST /v1/files with a file's bytes."""

import asyncio

import pytest

import attar
from attar.errors import FormatError, NameTakenError, OptionError
from benchmarks.document_files import eml_of, pdf_of, zip_of

from .conftest import CLOSE, statuses_in

TEXT = "Then Ann met Bob. Bob left for Rome."
BYTES = {"content-type": "application/octet-stream"}


def send(served, data, headers=BYTES, **query):
    return served.post("/v1/files", params=query, content=data, headers=headers)


def test_a_file_becomes_a_document_with_its_name(served):
    response = send(served, TEXT.encode(), name="trip.txt")
    assert response.status_code == 200
    (change,) = response.json()["changes"]
    assert (change["name"], change["change"]) == ("trip", "added")
    assert served.get("/v1/documents/trip").json()["text"] == TEXT


def test_files_of_other_kinds_become_documents_with_titles_and_dates(served):
    (change,) = send(served, pdf_of(["Ann left.", "Bob came."], title="Two pages"), name="trip.pdf").json()[
        "changes"
    ]
    assert change["name"] == "trip.pdf"
    document = served.get("/v1/documents/trip.pdf").json()
    assert (document["text"], document["title"]) == ("Ann left.\n\nBob came.", "Two pages")
    assert len(document["date"]) == 10
    archive = zip_of({"a.md": b"# Ann\n\nleft.", "b.eml": eml_of("Bob came.")})
    changes = send(served, archive, name="all.zip").json()["changes"]
    assert [change["name"] for change in changes] == ["all.zip/a.md", "all.zip/b.eml"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("cut.pdf", b"%PDF-1.7 cut", "is not a PDF file, or is damaged"),
        ("old.doc", b"x", "save it as DOCX"),
        ("all.zip", zip_of({"a.txt": b" " * 2**27}), "bytes when decompressed"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(served, refused, name, data, reason):
    line = refused(send(served, data, name=name), 422)
    assert name in line
    assert reason in line


def test_the_same_file_again_changes_nothing(served):
    send(served, TEXT.encode(), name="trip.txt")
    (change,) = send(served, TEXT.encode(), name="trip.txt").json()["changes"]
    assert change["change"] == "unchanged"


def test_another_file_of_that_name_is_409_unless_it_may_replace(served, refused):
    send(served, TEXT.encode(), name="trip.txt")
    assert "trip" in refused(send(served, b"Then Eve came.", name="trip.txt"), 409)
    (change,) = send(served, b"Then Eve came.", name="trip.txt", replace="1").json()["changes"]
    assert change["change"] == "replaced"


@pytest.mark.parametrize("data", [b"", b"  \n", b"GIF\0\1"], ids=["empty", "blank", "binary"])
def test_a_file_without_text_is_refused_by_its_name(served, refused, data):
    assert "odd.txt" in refused(send(served, data, name="odd.txt"), 422)


def test_a_file_needs_a_name(served, refused):
    assert "name" in refused(send(served, TEXT.encode()), 422)


def test_a_body_of_another_type_is_415(served, refused):
    assert "octet-stream" in refused(send(served, b"{}", {"content-type": "application/json"}, name="a"), 415)


def test_a_text_beyond_the_limit_is_413(serve, refused):
    assert "characters" in refused(send(serve(max_text=10), TEXT.encode(), name="trip.txt"), 413)


def test_texts_of_an_archive_that_are_beyond_the_limit_together_are_413(listen):
    """A few kilobytes can hold any number of texts that are each within the limit."""
    archive = zip_of({f"{at}.txt": b"Ann left. " * 90_000 for at in range(60)})
    assert len(archive) < 200_000
    listening = listen(max_text=1_000_000)
    fields = f"content-length: {len(archive)}", "content-type: application/octet-stream", CLOSE
    head = "\r\n".join(["POST /v1/files?name=all.zip HTTP/1.1", "host: localhost", *fields, "\r\n"])
    answer = listening.send_raw(head.encode() + archive)
    assert statuses_in(answer) == [413]
    assert b"texts of the file: expected at most 1,000,000 characters, got 1,8" in answer
    with attar.Client(listening.url) as client:
        assert len(list(client.documents())) == 2


def test_a_file_beyond_the_limit_is_413(serve, refused):
    assert "bytes" in refused(send(serve(max_body=10), TEXT.encode(), name="trip.txt"), 413)


def test_a_read_only_server_takes_no_file(serve, refused):
    refused(send(serve(read_only=True), TEXT.encode(), name="trip.txt"), 403)


def test_a_client_sends_a_file_by_its_path_or_its_bytes(listen, tmp_path):
    (tmp_path / "trip.txt").write_text(TEXT)
    with attar.Client(listen().url) as client:
        assert [change.name for change in client.add_file(tmp_path / "trip.txt")] == ["trip"]
        assert client.add_file(TEXT.encode(), "trip.txt")[0].change == "unchanged"
        with pytest.raises(NameTakenError, match="trip"):
            client.add_file(b"Then Eve came.", "trip.txt")
        assert client.add_file(b"Then Eve came.", "trip.txt", replace=True)[0].change == "replaced"
        assert client.show("trip").text == "Then Eve came."


def test_the_async_client_sends_a_file(listen):
    async def add():
        async with attar.AsyncClient(listen().url) as client:
            return await client.add_file(TEXT.encode(), "a & b.txt")

    assert [change.name for change in asyncio.run(add())] == ["a & b"]


def test_a_file_that_is_not_there_is_refused_before_anything_is_sent(tmp_path):
    client = attar.Client("http://127.0.0.1:9")
    with pytest.raises(FormatError, match=r"none\.txt"):
        client.add_file(tmp_path / "none.txt")
    with pytest.raises(OptionError, match="name"):
        client.add_file(b"Ann left.")
