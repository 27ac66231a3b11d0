"""What a server answers: each test runs against `attar serve STORE` and `attar serve SHARDS --ray`."""

import re
from pathlib import Path

import pytest

from attar import Client, wire
from attar.cluster.shards import shard_of

from .servers import QUESTIONS, TEXTS, refused, rounded

pytestmark = pytest.mark.slow


def test_all_documents_are_asked(server, whole):
    for question in QUESTIONS:
        reply = server.post(wire.ASK, {"question": question}).json()
        answers = [wire.Answer(**each) for each in reply["answers"]]
        assert rounded(answers) == rounded(whole.ask_all(question))
        assert "missing" not in reply
    reply = server.post(wire.ASK, {"questions": QUESTIONS, "top": 1}).json()
    assert [each["answers"][0]["text"] for each in reply["results"]] == [
        whole.ask_all(question)[0].text for question in QUESTIONS
    ]


def test_search_finds_documents_and_sentences(server, whole):
    with Client(server.url) as client:
        for query in ("river of the Italian capital", "mining salt", "piano"):
            assert rounded(client.search(query, top=3)) == rounded(whole.search(query, top=3))


def test_named_documents_are_asked(server, whole):
    with Client(server.url) as client:
        assert client.ask("tea", QUESTIONS[0])[0].text == "China"
        names = ["tea", "emma", "letters/2", "salt", "tea"]
        asked = [*QUESTIONS, QUESTIONS[0]]
        found = client.ask_many(names, asked, top=1)
        expected = whole.ask_many(names, asked, top=1)
        assert [each[0].text for each in found] == [each[0].text for each in expected]


def test_an_unknown_document_is_404_with_similar_names_of_all_shards(server):
    body = {"documents": ["tea", "letters/11"], "question": "Who?"}
    detail = refused(server.post(wire.ASK, body), 404)
    assert "'letters/11'" in detail
    assert "did you mean 'letters/1'" in detail
    assert "did you mean 'rome'" in refused(server.get("/v1/documents/roma"), 404)


def test_documents_are_listed_in_order_page_by_page(server):
    first = server.get("/v1/documents", params={"limit": 4}).json()
    assert [each["name"] for each in first["documents"]] == ["emma", "letters/1", "letters/2", "rome"]
    assert (first["total"], first["next"]) == (6, "rome")
    second = server.get("/v1/documents", params={"after": "rome"}).json()
    assert ([each["name"] for each in second["documents"]], second["next"]) == (["salt", "tea"], None)
    with Client(server.url) as client:
        assert [each.name for each in client.documents()] == sorted(TEXTS)
        assert len(client) == 6


def test_documents_are_added_continued_merged_and_removed(server):
    names = [f"new/{number}" for number in range(6)]
    assert len({shard_of(name, 2) for name in names}) == 2
    with Client(server.url) as client:
        for name in names:
            assert client.add(name, f"Rosa Diaz bought a map of 1802 for {name}.").change == "added"
            assert client.add(name, f"Rosa Diaz bought a map of 1802 for {name}.").change == "unchanged"
        refused(
            server.http.put(f"/v1/documents/{names[0]}", json={"text": "Another.", "replace": False}), 409
        )
        for _ in range(2):  # the second is recognised by its key
            client.append(names[0], "Then Ada Byron lost it.", key="k")
        assert client.show(names[0]).text.endswith(f"{names[0]}.\n\nThen Ada Byron lost it.")
        assert client.ask(names[0], "Who lost the map?")[0].text == "Ada Byron"
        for _ in range(2):
            assert client.merge("new/all", names[:3], key="m").change == "merged"
        assert client.show("new/all").text.count("Rosa Diaz") == 3
        assert client.ask_all("Who bought a map of 1802?")[0].text == "Rosa Diaz"
        detail = refused(server.post(wire.REMOVE, {"documents": [*names, "nobody"]}), 404)
        assert "'nobody'" in detail
        assert len(client) == 13
        client.remove(*names, "new/all")
        assert len(client) == 6
        assert client.ask_all("Who bought a map of 1802?")[0].text != "Rosa Diaz"
    refused(server.http.delete(f"/v1/documents/{names[0]}"), 404)
    refused(server.post(f"/v1/documents/{names[0]}/append", {"text": "More."}), 404)
    refused(server.post(wire.MERGE, {"new": "x", "documents": ["tea", "nobody"]}), 404)


def test_a_file_with_several_documents_is_added(server):
    with Client(server.url) as client:
        line = b'{"name": "line %d", "text": "Jo March hid coins in %d."}\n'
        lines = b"".join(line % (number, 1800 + number) for number in range(4))
        changes = client.add_file(lines, "notes.jsonl")
        assert [change.change for change in changes] == ["added"] * 4
        names = [change.name for change in changes]
        assert client.ask(names[2], "When did Jo March hide coins?")[0].text == "1802"
        client.remove(*names)


def test_a_document_is_shown(server):
    assert server.get("/v1/documents/tea").json()["text"] == TEXTS["tea"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"question": "Who?", "top": 0}, 422),
        ({"documents": [], "question": "Who?"}, 422),
        ({"documents": ["tea"] * 2, "questions": ["a", "b", "c"]}, 422),
        ({"questions": ["x"] * 2_000}, 422),
        ({"document": "tea", "question": "Who?", "more": 1}, 422),
    ],
)
def test_bad_requests_are_refused(server, body, status):
    refused(server.post(wire.ASK, body), status)


def test_metrics_count_the_documents_of_all_shards(server):
    assert "attar_store_documents 6.0" in server.get("/metrics").text
    assert server.get("/readyz").text == "ready\n"


def test_the_page_has_all_its_files_and_asks(server):
    found = set(re.findall(r'(?:src|href)="([\w.]+\.\w+)"', server.get("/").text))
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        response = server.get(f"/{name}")
        kinds = {"js": "javascript", "css": "css", "svg": "svg"}
        assert response.status_code == 200, name
        assert kinds[name.rpartition(".")[2]] in response.headers["content-type"]
        new = set(re.findall(r'from "\./(\w+\.js)"', response.text)) - found
        found |= new
        waiting += new
    page = Path(__file__).parents[2] / "attar" / "server" / "page"
    assert found == {file.name for file in page.iterdir()} - {"index.html"}
    # As a browser sends what the page asks.
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}
    reply = server.http.post(wire.ASK, json={"question": QUESTIONS[0]}, headers=headers)
    assert reply.json()["answers"][0]["text"] == "China"
