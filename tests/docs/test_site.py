"""The site's own parts: what it refuses, how it shows docstrings, and that no public name is left out."""

import importlib
import importlib.util
import re

import pytest

ROOMS = ["library", "memory", "nn", "ops", "reader", "server", "store"]


@pytest.fixture
def part(root):
    """A part of the site's build, by its file's name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, root / "docs" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://elsewhere.example/a.js"></script>',
        '<link rel="stylesheet" href="//elsewhere.example/a.css">',
        '<img src="http://elsewhere.example/a.png">',
        '<div class="mermaid">graph</div>',
    ],
)
def test_a_page_that_loads_from_elsewhere_is_refused(part, html):
    assert part("check_pages").fetched_from_elsewhere(html)


def test_a_page_that_links_elsewhere_is_not(part):
    html = '<a href="https://elsewhere.example/">there</a><img src="figures/cost.svg">'
    assert part("check_pages").fetched_from_elsewhere(html) == []


def test_doctests_and_columns_are_shown_as_they_are_typed(part):
    shown = part("docstring_blocks").with_fences("Add.\n\n>>> 1 + 1\n2\n\nf   [B]   tokens\n\n| a   | b |")
    assert shown == ("Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\n```text\nf   [B]   tokens\n```\n\n| a   | b |")


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_is_on_its_page(room, root):
    page = (root / "docs" / "api" / f"{room}.md").read_text()
    shown = re.findall(r"^::: (\S+)$", page, re.M)
    module = importlib.import_module(f"attar.{room}")
    named = {each.rpartition(".")[2] for each in shown if each != f"attar.{room}"}
    # A whole room is shown but for names that are a part of it as well: the part would hide them.
    hidden = {name for name in module.__all__ if importlib.util.find_spec(f"attar.{room}.{name}")}
    whole = set(module.__all__) - hidden if f"attar.{room}" in shown else set()
    # Names that other rooms use, but that are not part of the stable interface, are listed in a sentence.
    listed = set(re.findall(r"`(\w+)`", page))
    assert set(module.__all__) - named - whole - listed == set()


def test_every_example_is_on_the_page_of_examples_and_has_a_test(root):
    page = (root / "docs" / "examples.md").read_text()
    tests = "".join(file.read_text() for file in (root / "tests" / "examples").glob("*.py"))
    # Those that can be run; the others are parts of one.
    examples = [file for file in (root / "examples").glob("*.py") if "__main__" in file.read_text()]
    examples += (root / "examples").glob("*.ipynb")
    assert examples
    for example in examples:
        assert f"`{example.name}`" in page
        assert example.stem in tests, f"no test runs {example.name}"


def test_make_builds_the_site_before_the_tests(root):
    rules = (root / "Makefile").read_text()
    assert re.search(r"^test: lint docs$", rules, re.M)
    assert re.search(r"^docs: .*\n\t.*mkdocs build --strict$", rules, re.M)
