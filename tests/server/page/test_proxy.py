"""The whole page behind nginx and Caddy, with the files that ship: add, ask, open and delete below a prefix."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from benchmarks.server import free_port, serving
from tests.server.page.conftest import Server

pytestmark = pytest.mark.nightly

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
PROGRAMS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
TOKEN = "open-sesame"


def adapted(shipped: Path, here: dict[str, str]) -> str:
    """A file that ships, with what this machine has in place of what is written there."""
    site = shipped.read_text()
    for written, put in here.items():
        assert written in site
        site = site.replace(written, put)
    return site


def nginx_command(place: Path, backend: int, port: int) -> list[str]:
    """Start nginx with the file that ships, and with a certificate of this test."""
    program = shutil.which("nginx", path=PROGRAMS)
    if program is None or shutil.which("openssl") is None:
        pytest.skip("needs nginx and openssl: apt-get install nginx-light openssl")
    certificate = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost")
    files = ("-keyout", place / "key.pem", "-out", place / "cert.pem")
    subprocess.run(["openssl", "req", *certificate, *files], check=True, capture_output=True)
    here = {
        "127.0.0.1:8000": f"127.0.0.1:{backend}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/certs/example.org.pem": str(place / "cert.pem"),
        "/etc/ssl/private/example.org.key": str(place / "key.pem"),
        "server_name example.org": "server_name localhost",
    }
    config = place / "nginx.conf"
    around = Path(__file__).with_name("around.nginx.conf").read_text()
    config.write_text(around.format(place=place, site=adapted(DEPLOY / "nginx.conf", here)))
    return [program, "-p", str(place), "-c", str(config)]


def caddy_command(place: Path, backend: int, port: int) -> list[str]:
    """Start Caddy with the file that ships; its certificates come from an authority of its own."""
    program = shutil.which("caddy", path=PROGRAMS)
    if program is None:
        pytest.skip("needs caddy: apt-get install caddy")
    here = {
        "example.org {": f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls internal",
        "127.0.0.1:8000": f"127.0.0.1:{backend}",
    }
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
    config = place / "Caddyfile"
    config.write_text(options + adapted(DEPLOY / "Caddyfile", here))
    return [program, "run", "--adapter", "caddyfile", "--config", str(config)]


@pytest.fixture(scope="module", params=[nginx_command, caddy_command], ids=["nginx", "caddy"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server below /attar/ of a proxy."""
    place, port = tmp_path_factory.mktemp("proxy"), free_port()
    (place / "token").write_text(TOKEN)
    options = (
        "--prefix",
        "/attar",
        "--forwarded-allow-ips",
        "127.0.0.1",
        "--token-file",
        str(place / "token"),
    )
    with serving(place / "library", None, *options) as running:
        command = request.param(place, running.port, port)
        homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(place))
        proxy = subprocess.Popen(command, env=os.environ | homes)
        try:
            address = f"https://localhost:{port}/attar"
            wait_for(f"{address}/healthz")
            yield Server(address, place / "library")
        finally:
            proxy.terminate()
            proxy.wait(30)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, verify=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the proxy does not answer")


def test_the_whole_page_works_behind_the_shipped_proxy(proxied: Server, open_page: Any) -> None:
    page = open_page(proxied, ignore_https_errors=True)
    failed: list[str] = []
    page.on("response", lambda reply: failed.append(reply.url) if reply.status >= 400 else None)
    dialog = page.get_by_role("dialog", name="Token")
    dialog.get_by_label("Bearer token").fill(TOKEN)
    dialog.get_by_role("button", name="Use token").click()
    expect(page.get_by_role("heading", name="Your library is empty")).to_be_visible()
    failed.clear()
    page.get_by_role("link", name="Documents", exact=True).click()
    text = b"Then Ann Lee met Bob Stone in Paris. Bob Stone married Elizabeth Grey in May."
    page.locator("#files").set_input_files(
        {"name": "100 % a/b.txt", "mimeType": "text/plain", "buffer": text}
    )
    expect(page.locator("#uploads .state")).to_have_text("Added")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Question", exact=True).fill("Who married Elizabeth Grey?")
    page.keyboard.press("Enter")
    expect(page.locator("#best .phrase")).to_have_text("Bob Stone")
    page.locator("#best a").click()
    expect(page.locator("#document-text mark")).to_have_text("Bob Stone")
    page.get_by_role("link", name="Documents", exact=True).click()
    page.on("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name=re.compile("^Delete .*b$")).click()
    expect(page.locator("#no-documents")).to_be_visible()
    page.goto(f"{proxied.address}/docs")
    expect(page.locator(".operation").first).to_be_visible()
    assert failed == []
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{proxied.address}/metrics", verify=False, headers=headers).status_code == 403
