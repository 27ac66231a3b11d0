"""Every command where only the required packages are installed: it works, or says in one line which extra it needs."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.documents.document_files import pdf_of
from tests.ops.test_packages import HIDING, modules_beside, required_names

from .conftest import Cloze, Ran, all_commands, assert_one_line, run_attar

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = [
    *[{"question": "Where does Ann live?", "answers": [{"text": "Leeds", "answer_start": 13}]}] * 60,
    *[{"question": "Where does Bob live?", "answers": []}] * 20,
]
# The arguments of each command, and the extra that it needs. {S} is a library, {squad} a file of questions.
COMMANDS: dict[str, list[tuple[str, str | None]]] = {
    "add": [
        ("{S} stories --reader {reader}", None),
        ("{S} letter.pdf --reader {reader}", "documents"),
        ("{S} rows.parquet --reader {reader}", "parquet"),
        ("{S} stories --ray", "ray"),
    ],
    "append": [("{S} story0 stories/story1.txt --reader {reader}", None)],
    "ask": [('{S} "Who left?" --reader {reader}', None)],
    "search": [("{S} river --reader {reader}", None)],
    "verify": [("{S} {quote} --reader {reader}", None)],
    "merge": [("{S} both story0 story1", None)],
    "remove": [("{S} story0", None)],
    "tag": [("{S} story0 --add read", None)],
    "list": [("{S}", None)],
    "show": [("{S} story0", None)],
    "reread": [("{S} --reader {reader}", None)],
    "watch": [("{S} stories --reader {reader}", "watch")],
    "serve": [("{S} --port 0", "server"), ("{S} --ray", "server")],
    "mcp": [("{S}", "mcp")],
    "export": [("{S} all.parquet", "parquet")],
    "import": [("{S} rows.parquet", "parquet")],
    "shard": [("{S} --into 2 --out shards", None)],
    "train-questions": [("{squad} --init {reader} --out tuned --calibrate-only", None)],
    "evaluate-questions": [("{squad} --reader {reader}", None)],
    "bench": [("--quick --size 8 --device cpu", None)],
    "store check": [("{S}", None)],
    "store repair": [("{S}", None)],
    "store compact": [("{S}", None)],
    "store stats": [("{S}", None)],
    "store refit": [("{S} --reader {reader}", None)],
    "paper build": [("stories --out set", "parquet")],
    "paper train": [("-d {fresh} -o network", "parquet")],
    "paper evaluate": [("{network} -d {fresh}", "parquet")],
    "paper compare": [("-d {fresh} -o compared", "plots")],
    "paper recall": [("--sizes 8 --lengths 4 --steps 2 --out recall", "plots")],
    "paper table1": [("--quick --size 8 --device cpu --plot table.png", "plots")],
}
CASES = [(name, arguments, extra) for name, each in COMMANDS.items() for arguments, extra in each]


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that hides all other packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    absent = modules_beside(*required_names(project["dependencies"]))
    assert {"starlette", "pyarrow", "pypdf", "mcp", "ray", "matplotlib", "numba"} <= absent
    assert not {"torch", "numpy", "typer", "lmdb", "tokenizers"} & absent
    folder = tmp_path_factory.mktemp("site")
    # Python imports this before anything else.
    (folder / "sitecustomize.py").write_text(HIDING.format(absent=absent))
    return folder


@pytest.fixture(scope="module")
def fresh(cloze: Cloze, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set that no command has read yet, so that no arrays of it are cached; made where pyarrow is installed."""
    made = tmp_path_factory.mktemp("cloze") / "fresh"
    assert run_attar("paper", "build", cloze.texts, "--out", made).code == 0
    return made


@pytest.fixture
def run_without(place: Path, reader: Path, without_extras: Path, cloze: Cloze, fresh: Path, attar):
    """A command in a folder with stories, files and a library, in a process without the extras."""
    (place / "letter.pdf").write_bytes(pdf_of(["Ann left."]))
    (place / "rows.parquet").write_bytes(b"PAR1")
    article = {"title": "one", "paragraphs": [{"context": "Ann lives in Leeds.", "qas": QUESTIONS}]}
    (place / "squad.json").write_text(json.dumps({"data": [article]}))
    assert attar("add", "S", "stories")[0] == 0
    quote = f'"{" ".join((place / "stories" / "story0.txt").read_text().split()[:6])}"'

    def run(name: str, arguments: str) -> Ran:
        made = {"network": cloze.network, "fresh": fresh}
        words = shlex.split(arguments.format(S="S", squad="squad.json", reader=reader, quote=quote, **made))
        path = os.pathsep.join([str(without_extras), str(ROOT)])
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "attar", *name.split(), *words]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=240, env=environment
        )
        return Ran(ran.returncode, ran.stdout.splitlines(), ran.stderr.splitlines())

    return run


def test_the_list_has_every_command():
    # The demo is tried below, where it has time.
    assert {*all_commands()} - {"demo"} == {*COMMANDS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "extra"), CASES, ids=[f"{name} {extra or 'works'}" for name, _, extra in CASES]
)
def test_a_command_works_or_names_the_extra_that_it_needs(run_without, name, arguments, extra):
    ran = run_without(name, arguments)
    if extra is None:
        assert ran.code == 0, ran.errors
    else:
        assert_one_line(ran, f"pip install '.[{extra}]'")


@pytest.mark.nightly
def test_the_demo_needs_no_extra(run_without):
    assert run_without("demo", "").code == 0
