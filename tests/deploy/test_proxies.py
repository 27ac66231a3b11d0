"""nginx and Caddy in front of a server, under a prefix, with the files of deploy/."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

PREFIX = "/attar"


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_a_file_agrees_with_the_unit(root, unit, serve_options, name):
    text = (root / "deploy" / name).read_text()
    options = serve_options(unit["Service"]["ExecStart"].split()[2:])
    assert f"127.0.0.1:{options['port']}" in text
    assert options["prefix"] == PREFIX
    assert f"{PREFIX}/" in text
    # A line names the options that a server needs behind this proxy.
    (line,) = [line for line in text.splitlines() if "--prefix" in line]
    needed = serve_options(["library", *line.partition("with ")[2].strip(" .").split()])
    assert needed["prefix"] == options["prefix"]
    assert needed["forwarded_allow_ips"] == options["forwarded_allow_ips"] == "127.0.0.1"


def start_nginx(root: Path, folder: Path, backend: str, port: int) -> tuple[list[str], str]:
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=example.org", "-days", "1", "-keyout", key, "-out", certificate]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(made, check=True, capture_output=True)
    text = (root / "deploy" / "nginx.conf").read_text().replace("127.0.0.1:8000", backend)
    text = text.replace("/etc/ssl/certs/example.org.pem", str(certificate))
    text = text.replace("/etc/ssl/private/example.org.key", str(key))
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{each}_temp_path {folder}/{each};" for each in paths)
    (folder / "nginx.conf").write_text(
        # Started by root, nginx would serve as a user who may not write to the test's folder.
        f"{'user root;' if os.geteuid() == 0 else ''} pid {folder}/pid; daemon off; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{text}\n}}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], f"https://127.0.0.1:{port}"


def start_caddy(root: Path, folder: Path, backend: str, port: int) -> tuple[list[str], str]:
    text = (root / "deploy" / "Caddyfile").read_text().replace("127.0.0.1:8000", backend)
    # Without TLS: its certificate would be fetched.
    text = text.replace("example.org {", f"http://127.0.0.1:{port} {{")
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text)
    command = ["caddy", "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]
    return [*map(str, command)], f"http://127.0.0.1:{port}"


STARTS = {"nginx": start_nginx, "caddy": start_caddy}


@pytest.fixture(scope="module", params=STARTS)
def proxy(request, root, server, find_port, wait_until_answering, tmp_path_factory):
    """The address of a proxy in front of the server."""
    needed = [request.param, *(["openssl"] if request.param == "nginx" else [])]
    if not all(map(shutil.which, needed)):
        pytest.skip(f"needs {' and '.join(needed)}")
    folder = tmp_path_factory.mktemp(request.param)
    backend = server.url.removeprefix("http://")
    command, url = STARTS[request.param](root, folder, backend, find_port())
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": str(folder)}
        )
        try:
            wait_until_answering(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.slow
class TestBehindAProxy:
    def test_the_page_and_its_files_are_under_the_prefix(self, proxy):
        with httpx.Client(verify=False, base_url=proxy, timeout=60) as client:
            assert client.get(PREFIX).headers["location"].endswith(f"{PREFIX}/")
            assert "page.js" in client.get(f"{PREFIX}/").text
            for file in ("page.js", "page.css", "docs", "openapi.json", "readyz"):
                assert client.get(f"{PREFIX}/{file}").status_code == 200, file
            # The rest of the site is not the server's.
            assert "x-request-id" not in client.get("/v1/documents").headers

    def test_a_question_is_answered_and_needs_the_token(self, proxy, server):
        url, body = f"{proxy}{PREFIX}/v1/ask", {"document": "letters", "question": "Who wrote to Ann?"}
        reply = httpx.post(url, json=body, headers=server.bearer, verify=False, timeout=60)
        assert reply.json()["answers"][0]["text"] == "Bob Hale"
        assert httpx.post(url, json=body, verify=False).status_code == 401

    @pytest.mark.parametrize("name", ["a%2Fb", "a%20b%3Fc", "%E6%97%A5", "a/b", "100%25", "a%2F%2Fb"])
    def test_names_of_documents_arrive_as_they_were_sent(self, proxy, server, name):
        url = f"{proxy}{PREFIX}/v1/documents/{name}"
        with httpx.Client(verify=False, headers=server.bearer, timeout=60) as client:
            put = client.put(url, json={"text": "Ann left."})
            assert put.status_code in (200, 201), put.text
            direct = httpx.get(f"{server.url}/v1/documents/{name}", headers=server.bearer)
            assert direct.json()["name"] == put.json()["name"]
            assert client.delete(url).status_code == 204

    def test_the_log_has_the_clients_address_and_the_proxys_request_id(self, proxy, server):
        forged = {"x-forwarded-for": "203.0.113.7", "x-request-id": "mine"}
        reply = httpx.get(f"{proxy}{PREFIX}/healthz", headers=forged, verify=False)
        request_id = reply.headers["x-request-id"]
        assert request_id != "mine"
        deadline = time.monotonic() + 60
        while not (lines := [line for line in server.lines if request_id in line]):
            assert time.monotonic() < deadline
        assert json.loads(lines[0])["client"] == "127.0.0.1"

    def test_metrics_are_for_this_machine(self, proxy, server):
        reply = httpx.get(f"{proxy}{PREFIX}/metrics", headers=server.bearer, verify=False)
        assert reply.status_code == 403
        assert httpx.get(f"{server.url}/metrics", headers=server.bearer).status_code == 200

    def test_a_body_as_large_as_the_server_takes_passes(self, proxy, server):
        url = f"{proxy}{PREFIX}/v1/documents/large"
        words = {
            "headers": server.bearer | {"content-type": "application/json"},
            "verify": False,
            "timeout": 60,
        }
        # Refused by the server, for its text, and not by the proxy.
        reply = httpx.put(url, content=b'{"text": "' + b"a" * 15_000_000 + b'"}', **words)
        assert (reply.status_code, reply.json()["kind"]) == (413, "OptionError")
        assert httpx.put(url, content=b"a" * 17_000_000, **words).status_code == 413
