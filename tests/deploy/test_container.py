"""Dockerfile and compose.yaml: a linter accepts them, they agree, and the container answers where one can be built."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICE = COMPOSE["services"]["attar"]
# Each instruction is one line, once those that end in a backslash are joined.
STEPS = [line.partition(" ") for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line[:1].isalpha()]


def steps(name: str) -> list[str]:
    return [rest for instruction, _, rest in STEPS if instruction == name]


def test_a_linter_accepts_the_dockerfile():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("needs hadolint (extra dev, on Linux)")
    ran = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_server_takes_its_options(serve_options):
    (command,) = steps("CMD")
    assert json.loads(steps("ENTRYPOINT")[0]) == ["attar"]
    options = serve_options(json.loads(command)[1:])
    assert options["host"] == "0.0.0.0"
    assert str(options["token_file"]) == f"/run/secrets/{SERVICE['secrets'][0]}"
    assert set(SERVICE["secrets"]) == set(COMPOSE["secrets"])


def test_ports_agree(serve_options):
    port = serve_options(json.loads(steps("CMD")[0])[1:])["port"]
    assert steps("EXPOSE") == [str(port)]
    assert f"http://127.0.0.1:{port}/healthz" in steps("HEALTHCHECK")[0]
    # Reached from this machine only: TLS is the proxy's.
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_the_library_is_in_the_volume(serve_options):
    store = serve_options(json.loads(steps("CMD")[0])[1:])["store"]
    assert steps("VOLUME") == [str(Path(store).parent)]
    (volume,) = SERVICE["volumes"]
    name, _, place = volume.partition(":")
    assert name in COMPOSE["volumes"]
    assert place == str(Path(store).parent)


def test_it_does_not_run_as_root_and_writes_only_where_it_may():
    (user,) = steps("USER")
    assert user == re.search(r"useradd .*--uid (\d+)", DOCKERFILE)[1]
    assert int(user) > 0
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)", DOCKERFILE)[1]
    assert SERVICE["read_only"]
    assert any(Path(cache).is_relative_to(each) for each in SERVICE["tmpfs"])
    assert (SERVICE["cap_drop"], SERVICE["security_opt"]) == (["ALL"], ["no-new-privileges:true"])


def test_it_has_time_to_finish_accepted_requests(serve_options):
    timeout = serve_options(json.loads(steps("CMD")[0])[1:])["timeout"]
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > timeout + 5


def test_what_is_copied_exists_and_is_sent_to_the_builder():
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for step in steps("COPY") if "--from" not in step for word in step.split()[:-1]]
    assert sorted(copied) == sorted(sent)
    assert all((ROOT / name).exists() for name in copied)
    # All that the package is built from: the readme and the licences are in its metadata.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "attar", "pyproject.toml"} <= set(copied)


def test_versions_are_those_of_the_constraints():
    assert "PIP_CONSTRAINT=/build/constraints.txt" in DOCKERFILE
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"ARG EXTRAS=(\S+)", DOCKERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    version = re.search(r"PYTHON_IMAGE=python:([\d.]+)-slim", DOCKERFILE)[1]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def container_tool() -> str | None:
    """A tool that runs containers, and has the base image already: a test pulls none."""
    image = re.search(r"PYTHON_IMAGE=(\S+)", DOCKERFILE)[1]
    command = ["run", "--rm", "--pull=never", image, "true"]
    found = filter(shutil.which, ("docker", "podman"))
    return next(
        (tool for tool in found if not subprocess.run([tool, *command], capture_output=True).returncode), None
    )


@pytest.mark.slow
def test_the_container_is_built_healthy_and_answers(tmp_path):
    tool = container_tool()
    if tool is None:
        pytest.skip("needs docker or podman with the base image: docker pull python:3.12-slim")

    def run(*words: object) -> str:
        ran = subprocess.run([tool, *map(str, words)], capture_output=True, text=True, cwd=ROOT)
        assert ran.returncode == 0, ran.stderr[-2_000:]
        return ran.stdout.strip()

    index = [f"--build-arg=TORCH_INDEX={os.environ['TORCH_INDEX']}"] if "TORCH_INDEX" in os.environ else []
    run("build", "--format=docker" if tool == "podman" else "--quiet", *index, "--tag", "attar-test", ".")
    (tmp_path / "token").write_text("s3cret")
    (tmp_path / "token").chmod(0o644)
    secret = f"--volume={tmp_path}/token:/run/secrets/attar_token:ro"
    hardened = ["--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    container = run("run", "--detach", "--network=host", secret, *hardened, "attar-test")
    try:
        question = (
            "import time, attar\n"
            "client = attar.Client('http://127.0.0.1:8000', token='s3cret', retries=9)\n"
            "client.add('letters', 'Bob Hale wrote to Ann in May.')\n"
            "print(client.ask('letters', 'Who wrote to Ann?')[0].text)\n"
        )
        check = steps("HEALTHCHECK")[0].partition("CMD ")[2]
        waiting = f"until {' '.join(map(json.dumps, json.loads(check)))} 2>/dev/null; do sleep 1; done"
        run("exec", container, "timeout", "300", "sh", "-c", waiting)
        assert run("exec", container, "python", "-c", question) == "Bob Hale"
        assert run("exec", container, "id", "-u") == "10001"
        run("stop", "--time=60", container)
        assert (
            "shutdown complete"
            in subprocess.run([tool, "logs", container], capture_output=True, text=True).stderr
        )
    finally:
        run("rm", "--force", "--volumes", container)
        run("rmi", "--force", "attar-test")
