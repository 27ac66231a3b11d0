"""The package's own rules: what rooms may take from each other, and that a name means one thing."""

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "attar"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


def imports(file: Path) -> list[tuple[str, str]]:
    """The module and the name of everything that a file imports, wherever it stands in it."""
    found = []
    for node in ast.walk(TREES[file]):
        if isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return found


def room_of(module: str) -> str:
    """`attar.store.records` → `store`."""
    return module.split(".")[1] if "." in module else module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_rooms_take_no_private_names_from_each_other(file: Path) -> None:
    room = room_of(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))
    private = [
        f"{module}.{name}"
        for module, name in imports(file)
        if module.startswith("attar") and room_of(module) != room
        if any(part.startswith("_") and not part.startswith("__") for part in (*module.split("."), name))
    ]
    assert private == []


def test_the_package_needs_nothing_of_the_workshop() -> None:
    workshop = ("benchmarks", "tests", "examples")
    taken = [(file.name, module) for file in FILES for module, _ in imports(file)]
    assert [pair for pair in taken if pair[1].split(".")[0] in workshop] == []


def test_no_two_classes_have_the_same_name() -> None:
    classes = [
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, count in Counter(classes).items() if count > 1] == []
