"""The pages of commands and of Python names are what the generator makes of the code."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_generator_writes():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = {
        path: path.read_text(encoding="utf-8") for path in [ROOT / "docs/cli.md", *ROOT.glob("docs/api/*.md")]
    }
    stale = [path.name for path, text in generator.make_pages().items() if written.pop(path, None) != text]
    assert (stale, list(written)) == ([], []), "run .venv/bin/python docs/generate.py"
