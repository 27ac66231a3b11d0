"""The small distribution with the clients alone: built offline, and used where nothing else is installed."""

import shutil
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import attar
from benchmarks.server import serving
from benchmarks.tiny_reader import save_tiny_reader
from tests.ops.test_packages import distributions

from .test_wheel import run

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 10**6
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=ROOT / "client")
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of an environment that has only the wheel and what it declares."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    (place,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(place)
    for name in distributions("httpx", "msgspec"):
        for file in distribution(name).files or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), place / file)
    return place


def test_has_the_version_of_the_whole(wheel: Path) -> None:
    assert wheel.name == f"attar_client-{attar.__version__}-py3-none-any.whl"


def test_is_small_with_all_that_it_needs(packages: Path) -> None:
    assert sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) <= 60 * MEGABYTE


def test_asks_a_server_where_nothing_else_is_installed(packages: Path, tmp_path: Path) -> None:
    code = (
        "import attar\n"
        "try: attar.Client('http://127.0.0.1:1', retries=0).ask('emma', 'Who left?')\n"
        "except attar.UnavailableError as fault: print(fault)\n"
        "try: attar.Library\n"
        "except ImportError as fault: print(fault)\n"
    )
    python = packages.parents[2] / "bin" / "python"
    unavailable, missing = run(python, "-c", code, cwd=tmp_path).splitlines()
    assert unavailable.startswith("no answer from http://127.0.0.1:1")
    assert missing == "attar.Library is not a part of attar-client; install attar in its place"


def test_sends_files_and_folders_where_nothing_else_is_installed(packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    (folder / "2019").mkdir(parents=True)
    (folder / "ann.txt").write_text("Then Ann met Bob.")
    (folder / "2019" / "bob.md").write_text("# Bob\n\nBob left.")
    (folder / "song.mp3").write_bytes(b"\0")
    code = (
        "import attar, os, sys\n"
        "with attar.Client(sys.argv[1]) as client:\n"
        "    print(client.add_file(b'Jo left.', 'jo.txt')[0].name, client.add_file('letters/ann.txt')[0].name)\n"
        "    added = client.add_folder('letters', sync=True)\n"
        "    print([change.name for change in added.changes], len(added.skipped))\n"
        "    os.remove('letters/2019/bob.md')\n"
        "    print(client.add_folder('letters', sync=True).removed)\n"
        "    print([document.name for document in client.documents()])\n"
    )
    python = packages.parents[2] / "bin" / "python"
    with serving(tmp_path / "library", save_tiny_reader(tmp_path / "reader")) as server:
        told = run(python, "-c", code, f"http://127.0.0.1:{server.port}", cwd=tmp_path).splitlines()
    assert told == ["jo ann", "['2019/bob.md', 'ann'] 1", "['2019/bob.md']", "['ann', 'jo']"]
