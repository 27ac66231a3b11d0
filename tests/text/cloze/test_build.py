"""Sets built from plain text: windows, shuffled names, fixed questions where they must be, all seeded."""

from pathlib import Path

import pytest

from attar.errors import FormatError, OptionError
from attar.text.cloze import ClozeSet, most_frequent_name
from attar.text.cloze.build import BuildOptions, build_set
from attar.text.cloze.document import count_names
from attar.text.cloze.windows import cut_windows
from attar.text.stories import tell_stories
from attar.text.vocabulary import Vocabulary

OPTIONS = BuildOptions(window=200, questions=3, validation="0.2", test="0.2")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    stories = [story.text for story in tell_stories(seed=3, count=60)]
    for number in range(10):
        (folder / f"{number}.txt").write_text("\n\n".join(stories[number * 6 : number * 6 + 6]))
    return folder


@pytest.fixture(scope="module")
def built(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> ClozeSet:
    out = tmp_path_factory.mktemp("set")
    build_set([texts], out, OPTIONS)
    return ClozeSet.open(out)


def test_splits_are_by_source_document(built: ClozeSet) -> None:
    sources = {split: {d.name.split("#")[0] for d in built.documents(split)} for split in built.splits}
    assert {split: len(names) for split, names in sources.items()} == {
        "training": 6,
        "validation": 2,
        "test": 2,
    }
    assert len(set().union(*sources.values())) == 10


def test_training_keeps_all_sentences_and_the_others_have_fixed_questions(built: ClozeSet) -> None:
    assert all(not document.questions for document in built.documents("training"))
    for split in ("validation", "test"):
        for document in built.documents(split):
            assert 1 <= len(document.questions) <= 3
            for question in document.questions:
                assert count_names(document.sentences)[question.answer] > 0
                assert question.answer in document.names


def test_windows_are_about_as_long_as_asked(built: ClozeSet) -> None:
    lengths = [sum(map(len, document.sentences)) for document in built.documents("training")]
    assert 150 < sum(lengths) / len(lengths) < 250


def test_the_same_sources_and_seed_give_the_same_bytes(texts: Path, built: ClozeSet, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    for file in sorted(built.path.iterdir()):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
    build_set([texts], tmp_path, BuildOptions(window=200, questions=3, validation="0.2", test="0.2", seed=1))
    assert (tmp_path / "test.parquet").read_bytes() != (built.path / "test.parquet").read_bytes()


def test_names_are_numbered_in_no_order(built: ClozeSet) -> None:
    firsts = [next(iter(count_names(document.sentences))) for document in built.documents("training")]
    assert len(set(firsts)) > 5


def test_a_set_says_how_it_was_built(built: ClozeSet) -> None:
    assert built.about["options"]["window"] == 200
    assert built.about["splits"]["test"]["sources"] == 2
    assert built.vocabulary is not None
    assert built.vocabulary.fingerprint == built.about["vocabulary"]


def test_a_set_can_be_all_test_with_a_given_vocabulary(texts: Path, built: ClozeSet, tmp_path: Path) -> None:
    assert built.vocabulary is not None
    build_set([texts], tmp_path, BuildOptions(window=200, only="test"), vocabulary=built.vocabulary)
    found = ClozeSet.open(tmp_path)
    assert found.splits == ("test",)
    assert found.vocabulary == built.vocabulary
    assert all(document.questions for document in found.documents("test"))


def test_building_again_leaves_no_split_of_the_old_set(texts: Path, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    build_set([texts], tmp_path, BuildOptions(window=200, only="test"))
    assert ClozeSet.open(tmp_path).splits == ("test",)


def test_the_most_frequent_name_is_a_baseline_above_chance(built: ClozeSet) -> None:
    asked = [(document, question) for document in built.documents("test") for question in document.questions]
    right = sum(
        most_frequent_name(document, question.tokens) == question.answer for document, question in asked
    )
    assert 0 < right < len(asked)


def test_text_without_names_makes_no_set(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("it rained all day . " * 50)
    with pytest.raises(FormatError, match="expected text with names to ask for"):
        build_set([tmp_path / "a.txt"], tmp_path / "out", vocabulary=Vocabulary(()))
    with pytest.raises(FormatError, match="neither"):
        ClozeSet.open(tmp_path / "out")


@pytest.mark.parametrize("options", [{"only": "dev"}, {"window": 3}, {"questions": 0}])
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        BuildOptions(**options)  # type: ignore[arg-type]


def test_windows_hold_every_sentence_once() -> None:
    sentences = [[str(n)] * (n % 7 + 1) for n in range(100)]
    windows = list(cut_windows(sentences, 50))
    assert [sentence for window in windows for sentence in window] == sentences
    assert list(cut_windows([], 50)) == []
