"""The application against its own description: whatever that allows or forbids is answered as it says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import positive_data_acceptance, unsupported_method

from attar.library import Library
from attar.server import Settings, make_app
from attar.server.openapi import description

schema = schemathesis.openapi.from_dict(description())
# One process and the same cases every time.
few = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory, make_reader, stories, listening_at):
    """A server with a document "0", at a real address."""
    folder = tmp_path_factory.mktemp("served") / "library"
    library = Library(folder, make_reader("named"), dtype="float32", keep_text=True)
    library.add("0", stories[0].text)
    listening = listening_at(make_app(Settings(folder, log_level="error"), library))
    yield listening.url
    listening.close()


@schema.parametrize()
@few
def test_every_request_is_answered_as_described(case, address):
    # A schema cannot say that a question has a blank, or that a document is there: such requests may be refused.
    excluded = [positive_data_acceptance]
    if case.path.endswith("/append"):
        # Names may hold slashes: another method there is of a document whose name ends in "/append".
        excluded.append(unsupported_method)
    case.call_and_validate(base_url=address, excluded_checks=excluded)
