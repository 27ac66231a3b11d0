"""Routes of documents: put, append, list, show, merge and remove."""

from urllib.parse import quote

import pytest
import torch

TEXT = "Then Ann met Bob. Bob left for Rome."
OTHER = "Then Eve came."


def path_of(name):
    return f"/v1/documents/{quote(name, safe='')}"


def names_in(served):
    return [document["name"] for document in served.get("/v1/documents").json()["documents"]]


def test_a_document_is_added_left_as_it_is_or_replaced(served):
    told = []
    for text in (TEXT, TEXT, OTHER):
        response = served.put(path_of("new"), {"text": text})
        told.append((response.status_code, response.json()["change"]))
    assert told == [(201, "added"), (200, "unchanged"), (200, "replaced")]
    assert served.get(path_of("new")).json()["text"] == OTHER


def test_a_device_that_is_lost_while_texts_are_read_changes_nothing(
    make, serve, refused, monkeypatch, caplog
):
    made = make()
    served = serve(made)
    before = served.get(path_of("0")).json()
    with monkeypatch.context() as patch:
        encoder = made.library.reader._texts

        def lost(*given):
            raise RuntimeError("CUDA error: device lost\nCompile with TORCH_USE_CUDA_DSA.")

        patch.setattr(encoder, "device", torch.device("cuda"))
        patch.setattr(encoder, "encode_all", lost)
        patch.setattr("attar.search.fast_index.FastCollector", lost)
        for send, path in ((served.put, path_of("new")), (served.post, f"{path_of('0')}/append")):
            told = refused(send(path, {"text": TEXT}), 503)
            assert told == "the library cannot be used now; the server's log has the reason"
    faults = [record.fields["fault"] for record in caplog.records if record.name == "attar.server"]
    expected = "cuda does not read any more: CUDA error: device lost; what was confirmed is kept"
    assert [fault.startswith(expected) for fault in faults] == [True, True]
    assert served.get(path_of("0")).json() == before
    assert "new" not in names_in(served)


@pytest.mark.parametrize("key", ["", "x" * 256, "\x07"])
def test_a_key_that_cannot_be_kept_is_refused(served, refused, key):
    headers = {"idempotency-key": key.encode("latin-1")}
    assert "key" in refused(served.post("/v1/documents/0/append", {"text": TEXT}, headers=headers), 422)


def test_a_list_may_be_of_names_and_titles_that_contain_something(serve):
    served = serve(documents=3)
    served.put(path_of("Letters/emma.txt"), {"text": TEXT})
    served.put(path_of("x"), {"text": TEXT, "title": "To EMMA"})
    page = served.get("/v1/documents", params={"contains": "Emma"}).json()
    assert [document["name"] for document in page["documents"]] == ["Letters/emma.txt", "x"]
    page = served.get("/v1/documents", params={"contains": "emma", "limit": 1}).json()
    assert page["next"] == "Letters/emma.txt"
    page = served.get("/v1/documents", params={"contains": "emma", "after": page["next"]}).json()
    assert [document["name"] for document in page["documents"]] == ["x"]


def test_a_text_that_is_not_kept_is_null(serve):
    assert serve(keep_text=False).get(path_of("0")).json()["text"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", path_of("0"), {"text": OTHER, "replace": False}, 409, "'0'"),
        ("POST", "/v1/merge", {"new": "0", "documents": ["0", "1"]}, 409, "'0'"),
        ("POST", "/v1/merge", {"new": "both", "documents": ["0"]}, 422, ""),
        ("POST", "/v1/merge", {"new": "both", "documents": []}, 422, ""),
        ("POST", "/v1/merge", {"new": "both", "documents": ["0", "0"]}, 422, ""),
        ("POST", "/v1/merge", {"new": "both", "documents": ["0", "nobody"]}, 404, "'nobody'"),
        ("POST", "/v1/remove", {"documents": ["0", "nobody"]}, 404, "'nobody'"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(served, refused, method, path, body, status, words):
    before = served.get("/v1/documents").json()
    response = served.call(method, path, body)
    assert words in refused(response, status)
    kinds = {404: "UnknownDocumentError", 409: "NameTakenError"}
    assert kinds.get(status) in (None, response.json()["kind"])
    assert served.get("/v1/documents").json() == before


NAMES = {
    "slash": "a/b",
    "append": "a/append",
    "only a slash": "/",
    "dots": "../../etc/passwd",
    "percent": "..%2f",
    "wide": "ä€😀",
    "marks": "a b?c#d",
    "line": "line\r\nend",
    "zero": "\0",
    "long": "x" * 3_000,
    "blank": " ",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_may_contain_any_characters(served, name):
    assert served.put(path_of(name), {"text": TEXT}).status_code == 201
    assert name in names_in(served)
    assert name in served.library
    assert served.post(f"{path_of(name)}/append", {"text": OTHER}).status_code == 200
    assert served.get(path_of(name)).json()["name"] == name
    assert served.post("/v1/ask", {"document": name, "question": "Who left?"}).status_code == 200
    assert served.call("DELETE", path_of(name)).status_code == 204
    assert names_in(served) == ["0", "1"]


@pytest.mark.parametrize("path", ["/v1/documents/%ff", "/v1/documents/", "/v1/documents/" + "x" * 10_001])
def test_other_names_are_refused(served, refused, path):
    assert "name" in refused(served.put(path, {"text": TEXT}), 422)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"text": "\xff"}', 400),
        (b"[" * 500_000, 422),
        (b'{"x": ' + b"[" * 500_000, 422),
        (b"null", 422),
        (b"{}", 422),
        (b'{"text": "Ann left.", "tilte": "x"}', 422),
        (b'{"text": " "}', 422),
    ],
)
def test_an_invalid_body_is_refused_and_changes_nothing(served, refused, body, status):
    json = {"content-type": "application/json"}
    refused(served.call("PUT", path_of("new"), content=body, headers=json), status)
    assert names_in(served) == ["0", "1"]


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1001", "²", "9" * 99])
def test_an_invalid_limit_is_refused(served, refused, limit):
    refused(served.get(f"/v1/documents?limit={limit}"), 422)


def test_a_text_over_the_limit_is_413(serve, refused):
    assert "at most 20 characters" in refused(serve(max_text=20).put(path_of("new"), {"text": TEXT}), 413)


CHANGES = [
    ("PUT", path_of("new"), {"text": TEXT}),
    ("POST", f"{path_of('0')}/append", {"text": TEXT}),
    ("DELETE", path_of("0"), None),
    ("POST", "/v1/merge", {"new": "both", "documents": ["0", "1"]}),
    ("POST", "/v1/remove", {"documents": ["0", "1"]}),
    ("POST", "/v1/tag", {"documents": ["0", "1"], "add": ["new"]}),
]


def test_a_read_only_server_refuses_changes(serve, refused):
    served = serve(read_only=True)
    for change in CHANGES:
        refused(served.call(*change), 403)
    assert names_in(served) == ["0", "1"]


def test_more_documents_than_the_limit_are_not_merged_removed_or_tagged(serve, refused):
    served = serve(max_questions=1)
    for change in CHANGES[-3:]:
        assert "at most 1" in refused(served.call(*change), 422)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/v1/documents/new", {"text": 5}, "text"),
        ("PUT", "/v1/documents/new", {"text": "Ann left.", "title": "x" * 1_001}, "title"),
        ("POST", "/v1/merge", {"new": "x" * 10_001, "documents": ["0", "1"]}, "new"),
        ("POST", "/v1/remove", {"documents": ["x"] * 65_537}, "documents"),
        ("POST", "/v1/ask", {"document": "x" * 10_001, "question": "Who left?"}, "document"),
        ("POST", "/v1/ask", {"document": "0", "questions": ["Who?"] * 65_537}, "questions"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "top": 1_001}, "top"),
        ("POST", "/v1/ask", {"document": "", "question": "Who left?"}, "name"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "extra": 1}, "extra"),
    ],
)
def test_a_field_of_the_wrong_type_or_range_is_422_and_named_in_one_line(
    served, refused, method, path, body, field
):
    detail = refused(served.call(method, path, body), 422)
    assert field in detail
    assert "\n" not in detail
    assert len(detail) < 300
