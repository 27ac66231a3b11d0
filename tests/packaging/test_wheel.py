"""The wheel: what is in it, what it declares, and that it works where the checkout is not.

It is built offline with what is installed here, and installed into an environment of its own. That environment
sees the dependencies of this one, so these tests do not prove that the declared ranges can be met: installing
with an index does.
"""

import email
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attar
from benchmarks.release import MAX_WHEEL

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
pytestmark = pytest.mark.nightly


def run(*command: object, cwd: Path = ROOT) -> str:
    """What a command prints, with nothing of the checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def files(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as opened:
        return opened.namelist()


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(opened.read(name))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel, and sees what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (place,) = folder.glob("lib/python*/site-packages")
    # A path in a .pth file is searched, but .pth files there are not read: an editable attar is not seen.
    (place / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    programs = folder / "bin"
    install = ("-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-index", "--no-deps")
    run(sys.executable, *install, "--ignore-installed", wheel)
    return programs


def test_is_small_enough_to_be_fetched_in_a_moment(wheel: Path) -> None:
    assert wheel.stat().st_size <= MAX_WHEEL


@pytest.mark.parametrize("room", ["reader/readers/answers", "server/page"], ids=str)
def test_the_wheel_has_every_file_of_the_package(files: list[str], room: str) -> None:
    wanted = {f"attar/{room}/{file.name}" for file in (ROOT / "attar" / room).iterdir() if file.is_file()}
    assert len(wanted) >= 3
    assert wanted <= set(files)


def test_holds_the_licences_of_what_it_ships(files: list[str]) -> None:
    licences = {name.rpartition("/")[2] for name in files if ".dist-info/licenses/" in name}
    assert {"LICENSE", "NOTICE"} <= licences


def test_holds_the_package_and_nothing_else(files: list[str]) -> None:
    assert {name.split("/")[0] for name in files} == {"attar", f"attar-{attar.__version__}.dist-info"}


def test_declares_what_the_project_declares(metadata: Message) -> None:
    declared = metadata.get_all("Requires-Dist") or []
    base = [line for line in declared if "extra ==" not in line]
    assert sorted(base) == sorted(PROJECT["dependencies"])
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])


def test_ray_brings_the_server_that_it_serves_with(metadata: Message) -> None:
    declared = [line for line in metadata.get_all("Requires-Dist") or [] if "extra == 'ray'" in line]
    # What `attar.server.connections` extends.
    (limits,) = [line.partition(";")[0] for line in declared if line.startswith("uvicorn")]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (version,) = [line.partition("==")[2] for line in pins if line.startswith("uvicorn==")]
    assert Requirement(limits).specifier.contains(version)


def test_its_command_answers_outside_the_checkout(environment: Path, tmp_path: Path) -> None:
    assert run(environment / "attar", "--version", cwd=tmp_path) == f"attar {attar.__version__}\n"
    assert "ask" in run(environment / "attar", "--help", cwd=tmp_path)


def test_a_library_is_made_and_asked_with_the_reader_inside(environment: Path, tmp_path: Path) -> None:
    where = run(environment / "python", "-c", "import attar; print(attar.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment.parent)
    (tmp_path / "letters.txt").write_text("Bob Hale wrote to Ann in May. Ann lives in Bath.")
    run(environment / "attar", "add", "library", "letters.txt", cwd=tmp_path)
    assert "Bob Hale" in run(environment / "attar", "ask", "library", "letters", "Who wrote?", cwd=tmp_path)
