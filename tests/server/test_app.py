"""Health checks, documentation, the page, and unknown paths and methods."""

import re

import pytest


def test_health_checks(served):
    assert served.get("/healthz").text == "alive\n"
    assert served.get("/readyz").text == "ready\n"


def test_a_server_that_is_closing_is_not_ready(served, refused):
    served.shut_down()
    refused(served.get("/readyz"), 503)
    assert served.get("/healthz").status_code == 200


def test_the_documentation_loads_nothing_from_elsewhere(served):
    page = served.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    # Relative links work behind a proxy that serves all this under a prefix.
    linked = re.findall(r"(?:src|href)=\"([^\"]*)", page.text)
    assert {"openapi.json", "docs.js", "page.css"} <= set(linked)
    for path in linked:
        assert served.get(f"/{path}").status_code == 200


def test_the_status_has_sizes_and_questions_to_one_document_or_to_all(served):
    before = served.get("/v1/status").json()
    assert (before["documents"], before["questions"], before["read_only"]) == (2, 0, False)
    served.post("/v1/ask", {"document": "0", "questions": ["Who left?", "Who came?"]})
    served.post("/v1/ask", {"question": "Who left?"})
    assert served.get("/v1/status").json()["questions"] == 3
    assert served.metric("attar_questions_total", to="one") == 2
    assert served.metric("attar_questions_total", to="all") == 1


@pytest.mark.parametrize("path", ["/", "/docs", "/index.html"])
def test_the_page_is_revalidated_and_may_load_only_from_this_server(served, path):
    headers = served.get(path).headers
    assert headers["content-type"].startswith("text/html")
    assert headers["cache-control"] == "no-cache"
    assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/documents/0", {"GET", "HEAD", "PUT", "DELETE"}),
        ("GET", "/v1/ask", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
    ],
)
def test_405_names_the_allowed_methods(served, refused, method, path, allowed):
    response = served.call(method, path)
    refused(response, 405)
    assert {word.strip() for word in response.headers["allow"].split(",")} == allowed
