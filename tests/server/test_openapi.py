"""The OpenAPI document is complete, and the server answers every request as it says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import positive_data_acceptance, unsupported_method

from attar.library.library import Library
from attar.server.app import ROUTES, describe_api, make_app
from attar.server.settings import Settings

from .conftest import Listening, Made

schema = schemathesis.openapi.from_dict(describe_api())
# One process and the same cases every time; `make fuzz` tries others.
few = settings(
    max_examples=10, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def address(tmp_path_factory, tiny_reader, stories):
    """The address of a server with a document "0"."""
    folder = tmp_path_factory.mktemp("served") / "library"
    library = Library(folder, tiny_reader)
    library.add("0", stories[0].text)
    made_with = Settings(store=folder, log_level="error")
    listening = Listening(Made(make_app(made_with, library), library, made_with))
    yield listening.url
    listening.close()


@pytest.mark.slow
@schema.parametrize()
@few
def test_every_request_is_answered_as_described(case, address):
    # A schema cannot say that a question has a gap, or that a document exists: such requests may be refused.
    excluded = [positive_data_acceptance]
    if case.path.endswith("/append"):
        # Names may contain slashes: other methods apply to a document whose name ends in "/append".
        excluded.append(unsupported_method)
    case.call_and_validate(base_url=address, excluded_checks=excluded)


def test_the_document_has_all_routes_but_the_two_that_serve_it():
    paths = describe_api()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    routed = {(route.method, route.path.replace("{name:any}", "{name}")) for route in ROUTES}
    assert routed - described == {("GET", "/openapi.json"), ("GET", "/docs")}
    assert described <= routed
