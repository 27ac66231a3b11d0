"""CITATION.cff says how to cite the project, and the paper that it implements."""

import re
from pathlib import Path

import yaml

import attar

ROOT = Path(__file__).resolve().parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_has_what_the_format_needs():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(CITATION)
    assert CITATION["authors"] == [{"name": "The Attar maintainers"}]


def test_the_citation_names_the_paper_and_its_authors():
    (paper,) = CITATION["references"]
    assert paper["title"].startswith("A Cheap Linear Attention Mechanism")
    assert [author["family-names"] for author in paper["authors"]] == ["Brébisson", "Vincent"]


def test_agrees_with_the_project_on_the_licence():
    assert f'license = "{CITATION["license"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_agrees_with_package_and_changelog_on_the_version():
    assert CITATION["version"] == attar.__version__
    newest = re.search(r"^## \[(.+)\] – ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest[1] == attar.__version__
