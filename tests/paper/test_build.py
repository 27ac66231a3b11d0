"""Sets are built from plain text: splits by document, windows, shuffled names, fixed questions, all seeded."""

from pathlib import Path

import pytest

from attar.errors import AttarError, OptionError
from attar.paper import build
from attar.paper.build import build_set, split_documents
from attar.paper.cloze import count_names
from attar.paper.options import BuildOptions
from attar.paper.sets import ClozeSet
from benchmarks.stories import tell_stories

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
    for document in [*built.documents("validation"), *built.documents("test")]:
        assert 1 <= len(document.questions) <= 3
        for question, answer in zip(document.questions, document.answers, strict=True):
            assert question.split().count("@placeholder") == 1
            assert f"@entity{answer}" not in question.split()
            assert count_names(document.sentences)[answer] > 0
            assert answer in document.name_ids


def test_the_same_sources_and_seed_give_the_same_bytes(texts: Path, built: ClozeSet, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    for file in sorted(built.path.iterdir()):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
    other = BuildOptions(window=200, questions=3, validation="0.2", test="0.2", seed=1)
    build_set([texts], tmp_path, other, replace=True)
    assert (tmp_path / "test.parquet").read_bytes() != (built.path / "test.parquet").read_bytes()


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=repr)
def test_an_interrupted_build_leaves_the_old_set_unchanged(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def stop(*_: object) -> bytes:
        raise fault

    build_set([texts], tmp_path, OPTIONS)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(build.CapitalFinder, "find", stop)
    with pytest.raises((KeyboardInterrupt, AttarError)):
        build_set([texts], tmp_path, BuildOptions(window=100), replace=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


NAMES = [f"novels/{n:03}" for n in range(100)]


class TestSplits:
    @staticmethod
    def chosen(splits: list[str], split: str) -> list[int]:
        return [at for at, found in enumerate(splits) if found == split]

    def test_a_small_corpus_still_has_every_split(self) -> None:
        assert set(split_documents(["a", "b", "c"], "0.08", "0.08", 0)) == {"test", "training", "validation"}
        assert split_documents(["a"], "0.08", "0.08", 0) == ["training"]

    @pytest.mark.parametrize("shares", [("0.6", "0.6"), ("0.99", "0.01")], ids=" ".join)
    def test_shares_that_leave_nothing_for_training_are_refused(self, shares: tuple[str, str]) -> None:
        with pytest.raises(OptionError, match="expected shares that leave documents for training, got 0"):
            split_documents(NAMES, *shares, 0)

    def test_a_document_in_two_splits_is_refused(self) -> None:
        with pytest.raises(OptionError, match="document 'novels/005' is in both validation and test"):
            split_documents(NAMES, "i%5==0", "i%7==5", 0)

    @pytest.mark.parametrize("rule", ["1.5", "-0.1", "nothing", "i%5==7", "i%" + "9" * 5000 + "==0"])
    def test_invalid_rules_are_refused(self, rule: str) -> None:
        with pytest.raises(AttarError):
            split_documents(NAMES, rule, "0.1", 0)
