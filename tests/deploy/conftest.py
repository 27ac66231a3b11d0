"""The files in deploy/, and a server that runs as the systemd unit says."""

import configparser
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import typer.main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def unit() -> configparser.ConfigParser:
    """The systemd unit; of an option that is given twice, the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(ROOT / "deploy" / "attar.service")
    return parser


def parse_serve(words: list[str]) -> dict[str, object]:
    """The options of `attar serve` that words give; other words are an error of click."""
    from attar.cli.main import make_app

    command = typer.main.get_command(make_app()).commands["serve"]
    return command.make_context("serve", words).params


@pytest.fixture(scope="session")
def serve_options():
    return parse_serve


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture(scope="session")
def find_port():
    return free_port


@dataclass
class ServerProcess:
    """A server, its token and its log."""

    url: str
    token: str
    lines: list[str] = field(default_factory=list)

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="session")
def server(unit, tmp_path_factory):
    """A server with the options of the unit, in other folders and on another port, and with one document."""
    folder = tmp_path_factory.mktemp("unit")
    token = secrets.token_hex(16)
    (folder / "token").write_text(token)
    variables = {"STATE_DIRECTORY": folder, "CREDENTIALS_DIRECTORY": folder}
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program == "/opt/attar/bin/attar"
    words = [re.sub(r"\$\{(\w+)\}", lambda found: str(variables[found[1]]), word) for word in words]
    port = free_port()
    words[words.index("--port") + 1] = str(port)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-m", "attar", *words], stderr=subprocess.PIPE, text=True, env=environment
    )
    running = ServerProcess(f"http://127.0.0.1:{port}", token)
    thread = threading.Thread(target=lambda: running.lines.extend(process.stderr))
    thread.start()
    try:
        wait_for(running.url, process)
        body = {"text": "Ann lives in Bath. Bob Hale wrote to Ann in May."}
        put = httpx.put(f"{running.url}/v1/documents/letters", json=body, headers=running.bearer, timeout=60)
        assert put.status_code == 201
        yield running
    finally:
        process.terminate()
        process.wait(60)
        thread.join()
        process.stderr.close()


def wait_for(url: str, process: subprocess.Popen, seconds: float = 300) -> None:
    """Wait until a server answers; a loaded machine may take minutes."""
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline
        try:
            httpx.get(f"{url}/healthz", timeout=5, verify=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session")
def wait_until_answering():
    return wait_for
