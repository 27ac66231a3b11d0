"""Documents are split by shares, by rules on their place, or by lists, the same way every time."""

from pathlib import Path

import numpy as np
import pytest

from attar.cloze.splits import split_documents
from attar.errors import AttarError, FormatError, OptionError

NAMES = [f"novels/{n:03}" for n in range(100)]


def chosen(splits: list[str], split: str) -> list[int]:
    return [at for at, found in enumerate(splits) if found == split]


def test_shares_are_the_first_of_a_seeded_permutation_of_the_sorted_names() -> None:
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


def test_rules_take_every_so_manieth_document() -> None:
    splits = split_documents(NAMES, "i%20==0", "i % 20 == 1", 0)
    assert chosen(splits, "validation") == [0, 20, 40, 60, 80]
    assert chosen(splits, "test") == [1, 21, 41, 61, 81]


def test_lists_name_documents_with_or_without_folder_and_ending(tmp_path: Path) -> None:
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
def test_other_rules_are_refused(rule: str) -> None:
    with pytest.raises(AttarError):
        split_documents(NAMES, rule, "0.1", 0)


def test_a_list_with_unknown_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("novels/003\nemma\n")
    with pytest.raises(OptionError, match="1 unknown ones such as 'emma'"):
        split_documents(NAMES, str(tmp_path / "list"), "0", 0)
