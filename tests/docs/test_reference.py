"""The pages of commands and of Python names are what the generator makes of the code."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages():
    """Each generated page with its text, as the code is now."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    return generator.make_pages()


def test_the_reference_is_what_the_generator_writes(pages):
    stale = [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run .venv/bin/python docs/generate.py"


def test_no_page_is_left_over(pages):
    assert set((ROOT / "docs/api").iterdir()) <= set(pages)
