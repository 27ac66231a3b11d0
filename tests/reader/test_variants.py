"""The reader `fixed` of the package, which has the files of the default one."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from attar.errors import FormatError
from attar.library.library import Library
from attar.memory.budget import FIXED_SIZE
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.folders import SHIPPED, shipped_reader
from attar.reader.phrase_files import with_calibration
from attar.reader.reader import Reader

pytestmark = pytest.mark.slow

LETTER = "Ann moved to Leeds in May. Bob stayed in Bath. The piano costs 200 pounds a year."


@pytest.fixture(scope="module")
def reader() -> FixedSizeReader:
    reader = Reader.load("fixed")
    assert isinstance(reader, FixedSizeReader)
    return reader


class TestFixed:
    """Memories of at most 16 kB."""

    def test_has_a_fingerprint_of_its_own(self, reader):
        assert reader.fingerprint != Reader.load().fingerprint
        assert shipped_reader(reader.fingerprint) == "fixed"

    def test_a_library_of_it_answers_searches_appends_and_removes(self, reader, tmp_path):
        with Library(tmp_path / "library", "fixed") as library:
            library.add("letter", LETTER)
            library.add("note", "The mill was sold to Dora. Emil wrote about it in June.")
        with Library(tmp_path / "library") as library:  # found by its fingerprint
            (answer, *_) = library.ask("letter", "Where did Ann move?")
            assert answer.text == "Leeds"
            assert answer.quote == "Ann moved to Leeds in May."
            (answer, *_) = library.ask_all("Who was the mill sold to?")
            assert (answer.document, answer.text) == ("note", "Dora")
            assert library.search("piano")[0].document == "letter"
            library.append("letter", "Clara bought the red boat.")
            assert library.ask("letter", "Who bought the red boat?")[0].text == "Clara"
            library.remove("note")
            assert "note" not in [hit.document for hit in library.search("mill")]

    def test_a_long_text_takes_no_more(self, reader):
        # Real sentences of all lengths: of generated ones the words compress too well.
        text = (Path(__file__).parents[2] / "benchmarks" / "questions" / "everyday.json").read_text()
        assert len(reader.read(text).to_bytes()) <= FIXED_SIZE

    def test_a_library_of_it_keeps_to_the_size(self, reader, tmp_path):
        text = (Path(__file__).parents[2] / "benchmarks" / "questions" / "everyday.json").read_text()
        with Library(tmp_path / "library", reader) as library:
            library.add("one", text[:15_000])
            library.add("two", text[15_000:30_000])
            library.merge("both", ["one", "two"])
            library.append("both", text[30_000:34_000])
            assert [each.bytes for each in library.documents() if each.bytes > FIXED_SIZE] == []
            answer = next(each for each in library.ask("both", "What was tried?") if not each.absent)
            assert answer.quote is not None
            assert answer.text in answer.quote


def config(folder, **changed):
    """A folder with the config of `fixed`, some of its fields changed."""
    given = json.loads((SHIPPED / "fixed" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(given | changed))
    return folder


def test_it_can_be_calibrated_again(reader, tmp_path):
    other = replace(reader.calibration, threshold=0.123)
    with_calibration(config(tmp_path), tmp_path / "other", other, {})
    again = Reader.load(tmp_path / "other")
    assert isinstance(again, FixedSizeReader)
    assert again.calibration == other
    assert again.fingerprint == reader.fingerprint


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"weights": "x"}, "unknown field `weights`"),
        ({"fingerprint": "0" * 64}, "expected the reader 000000000000, got files of"),
        ({"calibration": None}, "Expected `object`, got `null`"),
    ],
)
def test_other_configs_are_refused_in_one_line(tmp_path, changed, part):
    with pytest.raises(FormatError, match=part) as caught:
        Reader.load(config(tmp_path, **changed))
    assert "\n" not in str(caught.value)
