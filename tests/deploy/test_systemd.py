"""The systemd unit: systemd accepts it, and the server takes its options."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import httpx
import pytest

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")


def test_the_server_takes_its_options(unit, serve_options):
    _, command, *words = shlex.split(unit["Service"]["ExecStart"])
    options = serve_options(words)
    assert command == "serve"
    assert str(options["store"]).startswith("${STATE_DIRECTORY}")
    assert str(options["token_file"]).startswith("${CREDENTIALS_DIRECTORY}")
    assert options["log_format"] == "json"


def test_the_token_is_the_credential_that_it_loads(unit, serve_options):
    service = unit["Service"]
    name, _, place = service["LoadCredential"].partition(":")
    assert f"${{CREDENTIALS_DIRECTORY}}/{name} " in service["ExecStart"]
    assert place == "/etc/attar/token"


def test_it_has_time_to_finish_accepted_requests(unit, serve_options):
    _, _, *words = shlex.split(unit["Service"]["ExecStart"])
    assert int(unit["Service"]["TimeoutStopSec"]) > serve_options(words)["timeout"] + 5


def test_compiled_lookups_are_kept_where_it_may_write(unit):
    service = unit["Service"]
    assert service["Environment"] == f"NUMBA_CACHE_DIR=%C/{service['CacheDirectory']}"


@needs_systemd
def test_systemd_verifies_the_unit(root, tmp_path):
    text = (root / "deploy" / "attar.service").read_text()
    # The program must exist.
    (tmp_path / "attar.service").write_text(text.replace("/opt/attar/bin/attar", sys.executable))
    ran = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "attar.service"], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@needs_systemd
def test_the_unit_has_an_exposure_level_below_two(root):
    command = [
        "systemd-analyze",
        "security",
        "--offline=yes",
        "--no-pager",
        root / "deploy" / "attar.service",
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in ran.stderr:
        pytest.skip("systemd-analyze is older")
    exposure = re.search(r"Overall exposure level for attar.service: ([\d.]+)", ran.stdout)
    # From 0, nothing, to 10, everything; without the section's second half it is 9.
    assert float(exposure[1]) < 2


@pytest.mark.slow
def test_a_server_with_its_options_answers_and_logs_json(server):
    body = {"document": "letters", "question": "Who wrote to Ann?"}
    reply = httpx.post(f"{server.url}/attar/v1/ask", json=body, headers=server.bearer, timeout=60)
    assert reply.json()["answers"][0]["text"] == "Bob Hale"
    assert httpx.post(f"{server.url}/v1/ask", json=body).status_code == 401
    events = [json.loads(line) for line in server.lines if not line.startswith("attar: new library")]
    assert {"request", "client", "method", "path", "status", "seconds"} <= set(events[-1])
    assert server.token not in "".join(server.lines)
