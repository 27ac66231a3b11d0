"""The route that takes files: POST /v1/files with a file's bytes."""

import lzma

import pytest

import attar
from attar import wire
from attar.errors import FormatError, NameTakenError, OptionError
from tests.documents.document_files import docx_of, eml_of, epub_of, pdf_of, tar_of, zip_of

TEXT = "Then Ann met Bob. Bob left for Rome."
BYTES = {"content-type": "application/octet-stream"}


def send(served, data, headers=BYTES, **query):
    return served.post("/v1/files", params=query, content=data, headers=headers)


def test_a_file_becomes_a_document_with_its_name_title_and_date(served):
    (change,) = send(served, pdf_of(["Ann left.", "Bob came."], title="Two pages"), name="trip.pdf").json()[
        "changes"
    ]
    assert (change["name"], change["change"]) == ("trip.pdf", "added")
    document = served.get("/v1/documents/trip.pdf").json()
    assert (document["text"], document["title"]) == ("Ann left.\n\nBob came.", "Two pages")
    assert len(document["date"]) == 10


def test_the_documents_of_a_file_get_tags_and_a_folder(served, refused):
    archive = zip_of({"a.md": b"# Ann\n\nleft.", "b.eml": eml_of("Bob came.")})
    send(served, archive, name="2026/may/all.zip", tag=["post", "new"])
    listed = served.get("/v1/documents", params={"in": "2026/may", "tag": "post"}).json()["documents"]
    assert [(document["name"], document["tags"]) for document in listed] == [
        ("2026/may/all.zip/a.md", ["post", "new"]),
        ("2026/may/all.zip/b.eml", ["post", "new"]),
    ]
    assert "tag" in refused(send(served, TEXT.encode(), name="trip.txt", tag="x" * 101), 422)


# Files of each kind that begins with bytes of its own, cut in the middle.
CUT = {
    "a.pdf": pdf_of(["Ann left."]),
    "a.docx": docx_of("Ann left."),
    "a.epub": epub_of(["Ann left."]),
    "a.zip": zip_of({"a.txt": b"Ann left."}),
    "a.tar.gz": tar_of({"a.txt": b"Ann left." * 99}, "gz"),
    "a.txt.xz": lzma.compress(b"Ann left."),
    "a.parquet": b"PAR1" + bytes(40) + b"PAR1",
}
# Kinds of text, with bytes that are none.
BINARY = ("txt", "md", "html", "csv", "json", "jsonl", "ics", "vcf", "eml", "mbox", "rtf", "yaml")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *((name, data if name.endswith("parquet") else data[: len(data) // 2]) for name, data in CUT.items()),
        *((f"a.{kind}", b"\x00\x01\xff\xfeGIF89a" * 40) for kind in BINARY),
        *((name, b"") for name in CUT),
        ("old.pages", b"x"),
        ("scans/Thumbs.db", b"left behind"),
        ("~$a.docx", b"left behind"),
        ("blank.txt", b"  \n"),
        ("swelling.zip", zip_of({"a.txt": b" " * 2**27})),
    ],
    ids=lambda value: value if isinstance(value, str) else ("damaged" if value else "empty"),
)
def test_a_file_that_cannot_be_read_is_one_problem_that_names_it(served, refused, name, data):
    before = len(served.get("/v1/documents").json()["documents"])
    detail = refused(send(served, data, name=name), 422)
    assert name in detail
    assert "\n" not in detail
    assert "Traceback" not in detail
    assert len(served.get("/v1/documents").json()["documents"]) == before


def test_a_file_needs_a_name_and_its_own_media_type(served, refused):
    assert "name" in refused(send(served, TEXT.encode()), 422)
    assert "octet-stream" in refused(send(served, b"{}", {"content-type": "application/json"}, name="a"), 415)


NAMED = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nAnn left.\r\n--x--\r\n'
FILES = [("file", ("a.txt", b"Ann left.")), ("other", ("b.md", b"# Bob\n\ncame."))]


class TestForms:
    """Files as `curl -F file=@a.txt` and forms of web pages send them."""

    def test_all_files_of_a_form_are_added(self, served):
        reply = served.post("/v1/files", files=FILES)
        assert [change["name"] for change in reply.json()["changes"]] == ["a", "b.md"]
        reply = served.post("/v1/files", params={"replace": 1}, files={"file": ("a.txt", b"Eve left.")})
        assert reply.json()["changes"][0]["change"] == "replaced"

    def test_the_only_file_of_a_form_may_get_another_name(self, served, refused):
        reply = served.post("/v1/files", params={"name": "2026/trip.txt"}, files=FILES[:1])
        assert [change["name"] for change in reply.json()["changes"]] == ["2026/trip"]
        assert "name" in refused(served.post("/v1/files", params={"name": "a.txt"}, files=FILES), 422)

    @pytest.mark.parametrize(
        ("words", "status"),
        [
            ({"data": {"text": "Ann left."}, "files": {"file": ("", b"")}}, 422),
            ({"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 422),
            ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400),
            (
                {
                    "content": NAMED,
                    "headers": {"content-type": f"{wire.FORM}; boundary=x; charset=undefined"},
                },
                422,
            ),
        ],
        ids=["no file", "cut", "no boundary", "no charset"],
    )
    def test_others_are_refused(self, served, refused, words, status):
        refused(served.post("/v1/files", **words), status)
        assert len(served.library) == 2

    @pytest.mark.parametrize(
        ("origin", "cors", "status"),
        [
            ("http://localhost", "", 200),
            ("https://other.example", "", 403),
            ("null", "", 403),
            ("https://other.example", "https://other.example", 200),
        ],
    )
    def test_a_form_of_another_site_is_refused(self, serve, origin, cors, status):
        """A browser sends it without asking, as it does not with JSON."""
        reply = serve(cors=cors).post("/v1/files", files=FILES, headers={"origin": origin})
        assert reply.status_code == status


def test_texts_that_are_beyond_the_limit_together_are_413(serve, refused):
    """A few kilobytes can hold any number of texts that are each within the limit."""
    archive = zip_of({f"{at}.txt": b"Ann left. " * 90_000 for at in range(60)})
    assert len(archive) < 200_000
    served = serve(max_text=1_000_000)
    assert "characters" in refused(send(served, archive, name="all.zip"), 413)
    assert len(served.library) == 2


def test_a_file_of_too_many_documents_is_413(served, refused):
    """A megabyte can hold a hundred thousand, which all wait in memory."""
    lines = b'{"text": "a."}\n' * 10_001
    assert "10,000 documents" in refused(send(served, lines, name="all.jsonl"), 413)
    assert len(served.library) == 2


@pytest.mark.slow
def test_a_client_sends_a_file_by_its_bytes(listen, tmp_path):
    with attar.Client(listen().url) as client:
        assert client.add_file(TEXT.encode(), "trip.txt")[0].change == "added"
        with pytest.raises(NameTakenError, match="trip"):
            client.add_file(b"Then Eve came.", "trip.txt")
        assert client.add_file(b"Then Eve came.", "a & b.txt")[0].name == "a & b"
        with pytest.raises(FormatError, match=r"none\.txt"):
            client.add_file(tmp_path / "none.txt")
        with pytest.raises(OptionError, match="name"):
            client.add_file(b"Ann left.")
