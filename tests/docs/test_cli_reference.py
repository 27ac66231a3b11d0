"""The page of commands is what the commands say of themselves."""

import importlib.util


def test_the_page_is_what_the_generator_makes_of_the_commands(root):
    place = root / "docs" / "generate_cli.py"
    spec = importlib.util.spec_from_file_location("generate_cli", place)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == generator.make_page(), "run .venv/bin/python docs/generate_cli.py"
