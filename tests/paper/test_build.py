"""Sets are built from plain text: splits by document, windows, shuffled names, fixed questions, all seeded."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from attar.errors import AttarError, OptionError
from attar.paper import build
from attar.paper.build import _cut_windows, build_set, split_documents, tell_story
from attar.paper.cloze import count_names
from attar.paper.options import BuildOptions
from attar.paper.sets import ClozeSet
from benchmarks.stories import tell_stories

OPTIONS = BuildOptions(window=200, questions=3, validation=0.2, test=0.2)


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
        for question in document.questions:
            assert question.tokens.count("@placeholder") == 1
            assert f"@entity{question.answer}" not in question.tokens
            assert count_names(document.sentences)[question.answer] > 0
            assert question.answer in document.names


def test_windows_have_about_the_wanted_length_and_names_in_random_order(built: ClozeSet) -> None:
    documents = list(built.documents("training"))
    lengths = [sum(map(len, document.sentences)) for document in documents]
    assert 150 < sum(lengths) / len(lengths) < 250
    assert len({next(iter(count_names(document.sentences))) for document in documents}) > 5


def test_the_same_sources_and_seed_give_the_same_bytes(texts: Path, built: ClozeSet, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    for file in sorted(built.path.iterdir()):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
    other = BuildOptions(window=200, questions=3, validation=0.2, test=0.2, seed=1)
    build_set([texts], tmp_path, other, replace=True)
    assert (tmp_path / "test.parquet").read_bytes() != (built.path / "test.parquet").read_bytes()


ALL_TEST = BuildOptions(window=200, validation=0, test=1)


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


def test_empty_splits_are_logged(texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build_set([texts / "0.txt"], tmp_path / "one", BuildOptions(window=200))
    assert [record.getMessage() for record in caplog.records] == [
        "attar: nothing for validation in 1 text; give more texts",
        "attar: nothing for test in 1 text; give more texts",
    ]


def test_typed_marks_are_ordinary_words(tmp_path: Path) -> None:
    text = "Then Ann Lee met Bob Ray and @entity0 in Rome and @placeholder left with Ann Lee. "
    (tmp_path / "a.txt").write_text(text * 12)
    build_set([tmp_path / "a.txt"], tmp_path / "set", ALL_TEST)
    (document,) = ClozeSet.open(tmp_path / "set").documents("test")
    assert "and @ entity0 in" in " ".join(document.sentences[0])
    assert set(count_names(document.sentences)) <= set(document.names)


def test_windows_contain_every_sentence_once() -> None:
    sentences = [[str(n)] * (n % 7 + 1) for n in range(100)]
    windows = list(_cut_windows(sentences, 50))
    assert [sentence for window in windows for sentence in window] == sentences
    assert list(_cut_windows([], 50)) == []


NAMES = [f"novels/{n:03}" for n in range(100)]


class TestSplits:
    @staticmethod
    def chosen(splits: list[str], split: str) -> list[int]:
        return [at for at, found in enumerate(splits) if found == split]

    def test_shares_are_the_first_names_of_a_seeded_permutation(self) -> None:
        order = np.random.RandomState(0).permutation(100).tolist()
        splits = split_documents(NAMES, 0.08, 0.08, seed=0)
        assert self.chosen(splits, "validation") == sorted(order[:8])
        assert self.chosen(splits, "test") == sorted(order[8:16])
        assert split_documents(NAMES[::-1], 0.08, 0.08, seed=0) == splits[::-1]

    def test_a_small_corpus_still_has_every_split(self) -> None:
        assert set(split_documents(["a", "b", "c"], 0.08, 0.08, 0)) == {"test", "training", "validation"}
        assert split_documents(["a"], 0.08, 0.08, 0) == ["training"]

    @pytest.mark.parametrize("shares", [(0.6, 0.6), (-0.1, 0.1), (0.1, float("nan"))], ids=str)
    def test_invalid_shares_are_refused(self, shares: tuple[float, float]) -> None:
        with pytest.raises(OptionError):
            BuildOptions(validation=shares[0], test=shares[1])


@pytest.mark.parametrize("seed", range(20))
def test_no_two_facts_answer_the_same_question(seed: int) -> None:
    story = tell_story(Random(seed), "a", facts=8)
    assert len(story.questions) == 8
    assert len({question.tokens for question in story.questions}) == 8
    told = {token for sentence in story.sentences for token in sentence}
    assert all(f"@entity{question.answer}" in told for question in story.questions)
    assert all(question.tokens.count("@placeholder") == 1 for question in story.questions)
