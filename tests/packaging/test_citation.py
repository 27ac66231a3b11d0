"""CITATION.cff says how to cite the project, and the paper that it implements."""

import re
from pathlib import Path

import yaml

import attar

ROOT = Path(__file__).resolve().parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_agrees_with_package_and_changelog_on_the_version():
    assert CITATION["version"] == attar.__version__
    newest = re.search(r"^## \[(.+)\] – ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest[1] == attar.__version__
