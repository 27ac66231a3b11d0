"""Options of a set: defaults of the vocabulary, and the names in files."""

import json
from pathlib import Path

from attar.cloze.build import build_set
from attar.cloze.options import BuildOptions
from attar.text.vocabulary import ENTITIES, VOCABULARY_SIZE


def test_the_defaults_are_those_of_the_vocabulary() -> None:
    assert (BuildOptions().entities, BuildOptions().vocabulary_size) == (ENTITIES, VOCABULARY_SIZE)


def test_files_keep_the_names_of_version_0_1(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann met Bob. Bob met Cy. Then Ann met Cy in Bath. " * 20)
    about = build_set([tmp_path / "a.txt"], tmp_path / "set", BuildOptions(only="test", vocabulary_size=50))
    assert about["options"]["size"] == 50
    assert "vocabulary_size" not in json.dumps(about)
