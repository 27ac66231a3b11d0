"""Signs of life, documentation, and the page."""

import re

import pytest
from starlette.routing import compile_path

from attar.server import signs
from attar.server.app import BUSY, ROUTES
from attar.server.openapi import OPERATIONS, description


def test_alive_and_ready(served):
    assert served.get("/healthz").text == "alive\n"
    assert served.get("/readyz").text == "ready\n"


def test_every_route_is_documented():
    routed = {(method.lower(), path.replace("{name:any}", "{name}")) for method, path, _ in ROUTES}
    routed |= {("post", path) for path in BUSY}
    documented = {(each.method, each.path) for each in OPERATIONS}
    assert routed - documented == {("get", "/openapi.json"), ("get", "/docs")}
    assert documented <= routed


def test_every_schema_that_is_named_is_there(served):
    told = served.get("/openapi.json").json()
    named = set(re.findall(r"#/components/schemas/(\w+)", str(told)))
    assert named <= set(told["components"]["schemas"])
    assert {"Ask", "Answers", "ManyAnswers", "Problem", "Answer"} <= named


def test_operations_have_names_of_their_own():
    names = [each.name for each in OPERATIONS]
    assert len(set(names)) == len(names)


def test_paths_parameters_are_declared():
    for path, methods in description()["paths"].items():
        wanted = set(compile_path(path)[2])
        for told in methods.values():
            declared = {each["name"] for each in told.get("parameters", []) if each["in"] == "path"}
            assert declared == wanted


def test_the_documentation_loads_nothing(served):
    page = served.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /v1/ask" in page.text
    assert not re.search(r"(?:src|href)=.?https?:|<script", page.text)


def test_the_page_takes_nothing_from_elsewhere(served):
    assert "default-src 'self'" in served.get("/").headers["content-security-policy"]


def test_the_page_is_at_the_root(served):
    assert served.get("/").headers["content-type"].startswith("text/html")


def test_without_a_page_a_line_is_at_the_root(serve, refused, monkeypatch, tmp_path):
    monkeypatch.setattr(signs, "PAGE", tmp_path / "none")
    served = serve()
    assert "/docs" in served.get("/").text
    refused(served.get("/page.js"), 404)


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1/nothing", "/v1", "/..%2f..%2fapp.py", "/%2e%2e/app.py", "/\0"]
)
def test_what_is_not_there(served, refused, path):
    refused(served.get(path.replace("\0", "%00")), 404)


def test_another_method(served, refused):
    refused(served.get("/v1/ask"), 405)
    refused(served.post("/healthz"), 405)


@pytest.mark.parametrize("path", ["/", "/docs", "/index.html"])
def test_the_page_is_asked_for_anew_after_an_upgrade(served, path):
    response = served.get(path)
    assert response.headers["cache-control"] == "no-cache"


def test_a_page_that_has_not_changed_is_not_sent_again(served):
    tag = served.get("/index.html").headers["etag"]
    assert served.get("/index.html", headers={"if-none-match": tag}).status_code == 304


def test_a_method_that_a_path_does_not_have_is_told_which_it_has(served, refused):
    response = served.call("PATCH", "/v1/documents/0")
    refused(response, 405)
    assert {word.strip() for word in response.headers["allow"].split(",")} == {"GET", "HEAD", "PUT", "DELETE"}
    assert served.get("/v1/ask").headers["allow"] == "POST"
