"""What loads when: names are there at once, torch only where it is needed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "numpy", "scipy", "triton", "matplotlib", "lmdb", "pyarrow")


def loaded_by(code):
    """The heavy packages that a fresh Python holds after running the code."""
    listing = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    command = [sys.executable, "-c", f"{code}\n{listing}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()[-1].split()


def run_main(*arguments):
    """`attar …` inside a fresh Python that goes on afterwards."""
    call = f"import sys; sys.argv = ['attar', *{arguments!r}]"
    end = "try: main()\nexcept SystemExit as end: assert not end.code"
    return f"{call}\nfrom attar.cli.main import main\n{end}"


def test_importing_attar_loads_nothing_heavy():
    assert loaded_by("import attar; attar.AttarError") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["add", "--help"], ["serve", "--help"], ["paper", "train", "--help"]],
)
def test_version_and_help_load_nothing_heavy(arguments):
    assert loaded_by(run_main(*arguments)) == []


@pytest.mark.slow
def test_a_client_loads_nothing_heavy():
    assert loaded_by("import attar, attar.wire; attar.Client().close()") == []


def test_a_client_needs_only_what_the_small_distribution_declares():
    """Its modules are listed in `client/pyproject.toml`."""
    listed = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))
    included = listed["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
    code = (
        "import sys, attar.client, attar.documents.following; attar.Client().close(); attar.Answer\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'attar'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = {name.replace(".", "/") + ".py" for name in ran.stdout.split()} - {"attar.py"}
    # The package that tells documents from other files is there as a whole.
    room = "attar/documents"
    files = {room if file.startswith(room) else file for file in files}
    assert {*files, "attar/__init__.py", "attar/py.typed", "attar/LICENSE"} == {*included}


@pytest.mark.slow
def test_a_worker_process_loads_nothing_heavy_before_it_answers_the_health_check():
    # The function that makes its application is unpickled first.
    assert loaded_by("from attar.server.run import _make_worker_app") == []


def test_an_everyday_command_does_not_load_the_modules_of_the_others():
    """Their options are built from dataclasses, which takes a tenth of the time of `attar list`."""
    code = (
        run_main("list", "--help") + "\nassert not {'attar.cli.train', 'attar.cli.serve'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    everything = run_main("--help") + "\nassert 'attar.cli.serve' in sys.modules"
    subprocess.run([sys.executable, "-c", everything], capture_output=True, check=True)
