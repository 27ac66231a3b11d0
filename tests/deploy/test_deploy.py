"""The files that operators start from: a linter accepts them, and a server runs as they say."""

import configparser
import json
import re
import secrets
import shlex
from pathlib import Path

import httpx
import pytest
import typer.main
from prometheus_client.parser import text_string_to_metric_families

from attar.cli.main import make_app
from tests.running import Running

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def serve_options(words: list[str]) -> dict[str, object]:
    """The options of `attar serve` that words give; other words are an error of click."""
    command = typer.main.get_command(make_app()).commands["serve"]
    return command.make_context("serve", words).params


def test_the_containers_command_is_one_of_the_server():
    dockerfile = (ROOT / "Dockerfile").read_text()
    options = serve_options(json.loads(re.search(r"^CMD (.+)$", dockerfile, re.MULTILINE)[1])[1:])
    assert (options["host"], str(options["token_file"])) == ("0.0.0.0", "/run/secrets/attar_token")
    assert f"http://127.0.0.1:{options['port']}/healthz" in dockerfile


def test_the_cluster_files_command_is_one_of_the_server():
    words = re.search(r"`attar serve ([^`]+)`", (DEPLOY / "ray-cluster.yaml").read_text())[1].split()
    assert serve_options(words)["ray"] == "auto"


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    """A server with the options of the systemd unit, in other folders and at a free port; its address and token."""
    folder = tmp_path_factory.mktemp("unit")
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "attar.service")
    token = secrets.token_hex(16)
    (folder / "token").write_text(token)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program == "/opt/attar/bin/attar"
    words = [re.sub(r"\$\{\w+\}", str(folder), word) for word in words]
    words[words.index("--port") + 1] = "0"
    running = Running(*words)
    running.wait_for("startup complete")
    yield running.url, token
    running.stop()


@pytest.mark.slow
def test_a_server_that_runs_as_the_unit_says_answers_and_reports_all_that_the_dashboard_shows(unit):
    url, token = unit
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
        body = {"text": "Ann lives in Bath. Bob Hale wrote to Ann in May."}
        assert client.put("/attar/v1/documents/letters", json=body).status_code == 201
        question = {"document": "letters", "question": "Who wrote to Ann?"}
        reply = client.post("/attar/v1/ask", json=question).json()
        assert reply["answers"][0]["text"] == "Bob Hale"
        metrics = client.get("/metrics").text
    told = {s.name for family in text_string_to_metric_families(metrics) for s in family.samples}
    board = json.loads((DEPLOY / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert set(re.findall(r"\b(?:attar|process)_\w+", " ".join(expressions))) <= told
