"""Sets are built from plain text: splits by document, windows, shuffled names, fixed questions, all seeded."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attar.cloze.build import _cut_windows, build_set, split_documents
from attar.cloze.documents import count_names
from attar.cloze.options import BuildOptions
from attar.cloze.sets import ClozeSet
from attar.errors import AttarError, FormatError, OptionError
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder
from attar.text.vocabulary import Vocabulary
from benchmarks.question_files import most_frequent_name
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
    for split in ("validation", "test"):
        for document in built.documents(split):
            assert 1 <= len(document.questions) <= 3
            for question in document.questions:
                assert count_names(document.sentences)[question.answer] > 0
                assert question.answer in document.names


def test_windows_have_about_the_wanted_length(built: ClozeSet) -> None:
    lengths = [sum(map(len, document.sentences)) for document in built.documents("training")]
    assert 150 < sum(lengths) / len(lengths) < 250


def test_the_same_sources_and_seed_give_the_same_bytes(texts: Path, built: ClozeSet, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    for file in sorted(built.path.iterdir()):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
    build_set(
        [texts],
        tmp_path,
        BuildOptions(window=200, questions=3, validation="0.2", test="0.2", seed=1),
        replace=True,
    )
    assert (tmp_path / "test.parquet").read_bytes() != (built.path / "test.parquet").read_bytes()


def test_names_are_numbered_in_random_order(built: ClozeSet) -> None:
    firsts = [next(iter(count_names(document.sentences))) for document in built.documents("training")]
    assert len(set(firsts)) > 5


def test_a_set_describes_how_it_was_built(built: ClozeSet) -> None:
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


@pytest.mark.parametrize("name", ["set.json", "tokenizer.json", "training.parquet", "test.parquet"])
def test_a_folder_with_a_set_is_refused_unless_it_may_be_replaced(
    texts: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("here first")
    with pytest.raises(OptionError, match=rf"{name}: expected nothing there yet, got a file; add --replace"):
        build_set([texts], tmp_path, OPTIONS)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "here first"


def test_building_again_removes_the_old_splits(texts: Path, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    build_set([texts], tmp_path, BuildOptions(window=200, only="test"), replace=True)
    assert ClozeSet.open(tmp_path).splits == ("test",)


def test_the_most_frequent_name_is_a_baseline_above_chance(built: ClozeSet) -> None:
    asked = [(document, question) for document in built.documents("test") for question in document.questions]
    right = sum(
        most_frequent_name(document, question.tokens) == question.answer for document, question in asked
    )
    assert 0 < right < len(asked)


def test_text_without_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("it rained all day . " * 50)
    with pytest.raises(FormatError, match="expected text with names to ask for"):
        build_set([tmp_path / "a.txt"], tmp_path / "out", vocabulary=Vocabulary(()))
    assert not (tmp_path / "out").exists()


def test_an_interrupted_build_leaves_the_old_set_unchanged(texts: Path, tmp_path: Path) -> None:
    build_set([texts], tmp_path, OPTIONS)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    class Stops(CapitalFinder):
        def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
            if len(known) > 20:
                raise KeyboardInterrupt
            return super().find(sentence, known)

    with pytest.raises(KeyboardInterrupt):
        build_set([texts], tmp_path, BuildOptions(window=900), finder=Stops(Vocabulary(())), replace=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_the_old_set_unchanged(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_is_full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    build_set([texts], tmp_path, OPTIONS)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(Vocabulary, "to_bytes", disk_is_full)
    with pytest.raises(AttarError, match="expected a folder to write to, got No space left on device"):
        build_set([texts], tmp_path, BuildOptions(window=100), replace=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("out", ["afile", "afile/x"])
def test_a_file_in_the_place_of_the_folder_is_refused(texts: Path, tmp_path: Path, out: str) -> None:
    (tmp_path / "afile").write_text("here first")
    with pytest.raises(AttarError, match=r"afile.*: expected a folder to write to, got"):
        build_set([texts], tmp_path / out, OPTIONS)
    assert (tmp_path / "afile").read_text() == "here first"


def test_a_text_given_twice_is_in_the_set_once(texts: Path, tmp_path: Path) -> None:
    build_set([texts / "0.txt", texts, texts / "1.txt"], tmp_path, OPTIONS)
    found = ClozeSet.open(tmp_path)
    names = [document.name for split in found.splits for document in found.documents(split)]
    assert len(names) == len(set(names))
    assert len({name.split("#")[0] for name in names}) == 10


def test_empty_splits_are_logged(texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build_set([texts / "0.txt"], tmp_path / "one", BuildOptions(window=200))
    assert [record.getMessage() for record in caplog.records] == [
        "attar: nothing for validation in 1 text; give more texts",
        "attar: nothing for test in 1 text; give more texts",
    ]
    caplog.clear()
    build_set([texts], tmp_path / "all", OPTIONS)
    build_set([texts / "0.txt"], tmp_path / "none", BuildOptions(window=200, validation="0", test="0"))
    build_set([texts / "0.txt"], tmp_path / "only", BuildOptions(window=200, only="test"))
    assert not caplog.records


def test_typed_marks_are_ordinary_words(tmp_path: Path) -> None:
    text = "Then Ann Lee met Bob Ray and @entity0 and @entity1 in Rome and @placeholder left with Ann Lee. "
    (tmp_path / "a.txt").write_text(text * 12)
    build_set([tmp_path / "a.txt"], tmp_path / "set", BuildOptions(only="test"))
    (document,) = ClozeSet.open(tmp_path / "set").documents("test")
    text_again = document.text()
    assert "Bob Ray and entity0 and entity1 in Rome and placeholder left" in text_again
    assert "@" not in text_again


def test_half_a_surrogate_pair_in_a_name_is_replaced(texts: Path, tmp_path: Path) -> None:
    row = {"id": "\ud800x", "text": (texts / "0.txt").read_text()}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    build_set([tmp_path / "a.jsonl"], tmp_path / "set", BuildOptions(only="test"))
    assert {d.name[:2] for d in ClozeSet.open(tmp_path / "set").documents("test")} == {"\ufffdx"}


@pytest.mark.parametrize(
    "options",
    [{"only": "dev"}, {"window": 3}, {"questions": 0}, {"only": "test", "validation": "nolist.txt"}],
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        BuildOptions(**options)  # type: ignore[arg-type]


def test_windows_contain_every_sentence_once() -> None:
    sentences = [[str(n)] * (n % 7 + 1) for n in range(100)]
    windows = list(_cut_windows(sentences, 50))
    assert [sentence for window in windows for sentence in window] == sentences
    assert list(_cut_windows([], 50)) == []


NAMES = [f"novels/{n:03}" for n in range(100)]


def chosen(splits: list[str], split: str) -> list[int]:
    return [at for at, found in enumerate(splits) if found == split]


def test_shares_are_the_first_names_of_a_seeded_permutation() -> None:
    order = np.random.RandomState(0).permutation(100).tolist()
    splits = split_documents(NAMES, "0.08", "0.08", seed=0)
    assert chosen(splits, "validation") == sorted(order[:8])
    assert chosen(splits, "test") == sorted(order[8:16])
    assert split_documents(NAMES[::-1], "0.08", "0.08", seed=0) == splits[::-1]
    assert split_documents(NAMES, "0.08", "0.08", seed=1) != splits


def test_a_small_corpus_still_has_every_split() -> None:
    assert sorted(split_documents(["a", "b", "c"], "0.08", "0.08", 0)) == ["test", "training", "validation"]
    assert split_documents(["a"], "0.08", "0.08", 0) == ["training"]
    assert split_documents(["a", "b", "c"], "0", "0", 0) == ["training"] * 3


def test_rules_select_documents_by_index() -> None:
    splits = split_documents(NAMES, "i%20==0", "i % 20 == 1", 0)
    assert chosen(splits, "validation") == [0, 20, 40, 60, 80]
    assert chosen(splits, "test") == [1, 21, 41, 61, 81]


def test_lists_may_leave_out_folder_and_suffix(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("novels/003\n004.txt\n\n005\n")
    splits = split_documents(NAMES, str(tmp_path / "list"), "0", 0)
    assert chosen(splits, "validation") == [3, 4, 5]
    assert chosen(splits, "test") == []


def test_a_list_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"\xef\xbb\xbfnovels/003\n")
    assert chosen(split_documents(NAMES, str(tmp_path / "list"), "0", 0), "validation") == [3]


def test_a_list_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"caf\xe9\n")
    with pytest.raises(FormatError, match="list: expected UTF-8 text, got the byte 0xe9 at 3; convert it"):
        split_documents(NAMES, str(tmp_path / "list"), "0", 0)


@pytest.mark.parametrize("shares", [("0.6", "0.6"), ("0.5", "0.5"), ("0.99", "0.01")])
def test_shares_that_leave_nothing_for_training_are_refused(shares: tuple[str, str]) -> None:
    with pytest.raises(OptionError, match="expected shares that leave documents for training, got 0"):
        split_documents(NAMES, *shares, 0)


def test_a_document_in_two_splits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("novels/005\n")
    for validation, test in (("i%5==0", "i%5==0"), ("i%5==0", "i%7==5"), (str(tmp_path / "list"), "i%5==0")):
        with pytest.raises(OptionError, match="expected no document in both, got 'novels/0"):
            split_documents(NAMES, validation, test, 0)


@pytest.mark.parametrize("rule", ["1.5", "-0.1", "nothing", "i%5==7", "i%" + "9" * 5000 + "==0", "x" * 5000])
def test_invalid_rules_are_refused(rule: str) -> None:
    with pytest.raises(AttarError):
        split_documents(NAMES, rule, "0.1", 0)


def test_a_list_with_unknown_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("novels/003\nemma\n")
    with pytest.raises(OptionError, match="1 unknown ones such as 'emma'"):
        split_documents(NAMES, str(tmp_path / "list"), "0", 0)
