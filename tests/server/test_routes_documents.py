"""Routes of documents: put, append, list, show and remove."""

from urllib.parse import quote

import msgspec
import pytest

import attar
from attar import wire
from attar.results import DocumentDetails

TEXT = "Then Ann met Bob. Bob left for Rome."


def path_of(name):
    return f"/v1/documents/{quote(name, safe='')}"


def names_in(served):
    return [document["name"] for document in served.get("/v1/documents").json()["documents"]]


def test_a_new_document_is_201(served):
    response = served.put(path_of("new"), {"text": TEXT})
    assert response.status_code == 201
    assert response.json()["change"] == "added"
    assert "new" in names_in(served)


def test_the_same_text_again_is_unchanged(served):
    served.put(path_of("new"), {"text": TEXT})
    response = served.put(path_of("new"), {"text": TEXT})
    assert (response.status_code, response.json()["change"]) == (200, "unchanged")


def test_another_text_replaces_the_first(served):
    served.put(path_of("new"), {"text": TEXT})
    response = served.put(path_of("new"), {"text": "Then Eve came."})
    assert (response.status_code, response.json()["change"]) == (200, "replaced")


def test_another_text_without_replace_is_409(served, refused):
    served.put(path_of("new"), {"text": TEXT})
    response = served.put(path_of("new"), {"text": "Then Eve came.", "replace": False})
    assert "another text" in refused(response, 409)
    assert served.get(path_of("new")).json()["text"] == TEXT


def test_appended_text_extends_the_document(served):
    before = served.get(path_of("0")).json()
    response = served.post(f"{path_of('0')}/append", {"text": "Then Zoe left."})
    assert response.json()["change"] == "appended"
    assert response.json()["tokens"] > before["tokens"]
    assert served.get(path_of("0")).json()["text"].endswith("Then Zoe left.")


def test_a_list_has_pages(serve):
    served = serve(documents=5)
    found, after = [], None
    for _ in range(3):
        page = served.get("/v1/documents", params={"limit": 2} | ({"after": after} if after else {})).json()
        found.append([document["name"] for document in page["documents"]])
        after = page["next"]
    assert found == [["0", "1"], ["2", "3"], ["4"]]
    assert after is None


def test_a_list_has_the_fields_of_its_struct(served):
    page = served.get("/v1/documents").json()
    assert set(page["documents"][0]) == set(wire.Document.__struct_fields__)
    msgspec.convert(page, wire.Page)


def test_a_document_has_the_fields_of_its_struct(served):
    told = served.get(path_of("0")).json()
    assert set(told) == set(DocumentDetails.__struct_fields__)
    msgspec.convert(told, DocumentDetails)


def test_a_text_that_is_not_kept_is_null(serve):
    assert serve(keep_text=False).get(path_of("0")).json()["text"] is None


def test_a_removed_document_is_gone(served, refused):
    assert served.call("DELETE", path_of("0")).status_code == 204
    assert "there is no document" in refused(served.get(path_of("0")), 404)
    assert names_in(served) == ["1"]


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a/append",
        "/",
        "../../etc/passwd",
        "..%2f",
        "ä€😀",
        "a b?c#d",
        "line\nend",
        "\0",
        "x" * 3_000,
        " ",
    ],
    ids=[
        "slash",
        "append",
        "only a slash",
        "dots",
        "percent",
        "wide",
        "marks",
        "line",
        "zero",
        "long",
        "blank",
    ],
)
def test_names_may_contain_any_characters(served, name):
    assert served.put(path_of(name), {"text": TEXT}).status_code == 201
    assert name in names_in(served)
    assert served.post(f"{path_of(name)}/append", {"text": "Then Eve came."}).status_code == 200
    assert served.get(path_of(name)).json()["name"] == name
    assert served.post("/v1/ask", {"document": name, "question": "Who left?"}).status_code == 200
    assert served.call("DELETE", path_of(name)).status_code == 204
    assert names_in(served) == ["0", "1"]


def test_slashes_need_not_be_encoded(served):
    served.put("/v1/documents/novels/emma.txt", {"text": TEXT})
    assert served.get(path_of("novels/emma.txt")).status_code == 200


def test_a_name_that_is_not_utf8_is_refused(served, refused):
    refused(served.put("/v1/documents/%ff", {"text": TEXT}), 422)


def test_a_document_needs_a_name(served, refused):
    refused(served.put("/v1/documents/", {"text": TEXT}), 422)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"text": "\xff"}', 400),
        (b"[" * 100_000, 422),
        (b'{"text": ' + b"[" * 100_000, 422),
        (b"null", 422),
        (b"[]", 422),
        (b'{"text": 3}', 422),
        (b'{"text": null}', 422),
        (b"{}", 422),
        (b'{"text": "Ann left.", "tilte": "x"}', 422),
        (b'{"text": ""}', 422),
        (b'{"text": " "}', 422),
    ],
)
def test_an_invalid_body_is_refused_and_changes_nothing(served, refused, body, status):
    json = {"content-type": "application/json"}
    refused(served.call("PUT", path_of("new"), content=body, headers=json), status)
    assert names_in(served) == ["0", "1"]


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"]
)
def test_another_content_type_is_415(served, refused, media):
    response = served.call("PUT", path_of("new"), content=b'{"text": "x"}', headers={"content-type": media})
    assert "content-type" in refused(response, 415)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "limit=1001", "limit=²", "limit=" + "9" * 99]
)
def test_an_invalid_limit_is_refused(served, refused, query):
    refused(served.get(f"/v1/documents?{query}"), 422)


def test_a_text_over_the_limit_is_413(serve, refused):
    assert "at most 20 characters" in refused(serve(max_text=20).put(path_of("new"), {"text": TEXT}), 413)


def test_appending_to_an_unknown_document_suggests_similar_names(served, refused):
    served.put(path_of("emma"), {"text": TEXT})
    detail = refused(served.post(f"{path_of('ema')}/append", {"text": "Ann left."}), 404)
    assert "did you mean 'emma'" in detail


def test_a_read_only_server_refuses_changes(serve, refused):
    served = serve(read_only=True)
    refused(served.put(path_of("new"), {"text": TEXT}), 403)
    refused(served.post(f"{path_of('0')}/append", {"text": TEXT}), 403)
    refused(served.call("DELETE", path_of("0")), 403)
    assert names_in(served) == ["0", "1"]


def test_a_name_that_ends_with_an_encoded_append_is_not_the_append_route(served, refused):
    served.put(path_of("0/append"), {"text": TEXT})
    refused(served.post(path_of("0/append"), {"text": TEXT}), 405)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_other_methods_of_a_document_are_405(served, refused, method):
    refused(served.call(method, path_of("0"), {"text": TEXT}), 405)


def test_documents_are_merged_into_a_new_one(served):
    response = served.post("/v1/merge", {"new": "both", "documents": ["0", "1"], "title": "Both"})
    assert response.status_code == 200
    merged = msgspec.convert(response.json(), attar.Change)
    assert (merged.name, merged.change) == ("both", "merged")
    assert merged.tokens == sum(served.get(path_of(name)).json()["tokens"] for name in "01")
    assert served.get(path_of("both")).json()["title"] == "Both"


def test_merging_into_an_existing_name_is_a_conflict_unless_it_may_be_replaced(served, refused):
    body = {"new": "0", "documents": ["0", "1"]}
    response = served.post("/v1/merge", body)
    assert "'0'" in refused(response, 409)
    assert response.json()["kind"] == "NameTakenError"
    assert served.post("/v1/merge", body | {"replace": True}).status_code == 200


@pytest.mark.parametrize(
    ("documents", "status"), [(["0"], 422), ([], 422), (["0", "0"], 422), (["0", "nobody"], 404)]
)
def test_merging_needs_two_different_documents_that_exist(served, refused, documents, status):
    refused(served.post("/v1/merge", {"new": "both", "documents": documents}), status)
    assert names_in(served) == ["0", "1"]


def test_several_documents_are_removed_atomically(serve, refused):
    served = serve(documents=3)
    refused(served.post("/v1/remove", {"documents": ["0", "nobody"]}), 404)
    assert names_in(served) == ["0", "1", "2"]
    assert served.post("/v1/remove", {"documents": ["0", "2"]}).status_code == 204
    assert names_in(served) == ["1"]


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/merge", {"new": "both", "documents": ["0", "1"]}), ("/v1/remove", {"documents": ["0", "1"]})],
)
def test_a_read_only_library_is_not_merged_or_removed_from(serve, refused, path, body):
    refused(serve(read_only=True).post(path, body), 403)


def test_more_documents_than_the_limit_are_not_merged_or_removed(serve, refused):
    served = serve(max_questions=1)
    for path, body in (("/v1/merge", {"new": "both"}), ("/v1/remove", {})):
        assert "at most 1" in refused(served.post(path, body | {"documents": ["0", "1"]}), 422)
    assert names_in(served) == ["0", "1"]


def test_a_document_that_cannot_be_read_hides_no_other(serve):
    served = serve(documents=3)
    with served.library.store._environment.map.begin(write=True) as transaction:
        transaction.put(b"f1", b"?")
    documents = served.get("/v1/documents").json()["documents"]
    assert [(each["name"], each["fault"] is None) for each in documents] == [
        ("0", True),
        ("1", False),
        ("2", True),
    ]
    assert "is damaged" in documents[1]["fault"]
    assert served.post("/v1/ask", {"document": "2", "question": "Who left?"}).status_code == 200
    assert served.call("DELETE", path_of("1")).status_code == 204
    assert names_in(served) == ["0", "2"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/v1/documents/new", {"text": 5}, "text"),
        ("PUT", "/v1/documents/new", {"text": "Ann left.", "title": "x" * 1_001}, "title"),
        ("PUT", "/v1/documents/new", {"text": "Ann left.", "replace": "yes"}, "replace"),
        ("PUT", "/v1/documents/new", {"text": "Ann left.", "titel": "x"}, "titel"),
        ("PUT", "/v1/documents/" + "x" * 10_001, {"text": "Ann left."}, "name"),
        ("POST", "/v1/documents/0/append", {"text": None}, "text"),
        ("POST", "/v1/documents/0/append", {}, "text"),
        ("POST", "/v1/merge", {"new": "x" * 10_001, "documents": ["0", "1"]}, "new"),
        ("POST", "/v1/merge", {"new": "both", "documents": "01"}, "documents"),
        ("POST", "/v1/merge", {"new": "both", "documents": [0, 1]}, "documents"),
        ("POST", "/v1/remove", {"documents": ["x"] * 65_537}, "documents"),
        ("POST", "/v1/ask", {"document": "x" * 10_001, "question": "Who left?"}, "document"),
        ("POST", "/v1/ask", {"document": "0", "questions": ["Who?"] * 65_537}, "questions"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "top": 0}, "top"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "top": 1_001}, "top"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "top": 1.5}, "top"),
        ("POST", "/v1/ask", {"document": "0", "question": "Who left?", "top": True}, "top"),
    ],
)
def test_a_field_of_the_wrong_type_or_range_is_422_and_named_in_one_line(
    served, refused, method, path, body, field
):
    detail = refused(served.call(method, path, body), 422)
    assert field in detail
    assert "\n" not in detail
    assert len(detail) < 300
