"""Question sets: SQuAD's JSON and lines, compressed or not; mistakes are one line; what is held out stays out."""

import gzip
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from attar.errors import FormatError
from attar.training.data import Passage, PassageQuestion, hold_out, read_passages

TEXT = "Ann moved to Leeds in May."
SQUAD = {
    "data": [
        {
            "title": "Ann",
            "paragraphs": [
                {
                    "context": TEXT,
                    "qas": [
                        {"question": "Where?", "answers": [{"text": "Leeds", "answer_start": 13}]},
                        {"question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}
LINE = {
    "title": "Ann",
    "context": TEXT,
    "questions": [{"question": "Where?", "answers": [{"text": "Leeds", "start": 13}]}],
}
WHERE = PassageQuestion("Where?", ((13, 18),))


def write(path: Path, content: str) -> Path:
    data = content.encode()
    packed = {".xz": lzma.compress, ".gz": gzip.compress}.get(path.suffix, bytes)(data)
    path.write_bytes(packed)
    return path


@pytest.mark.parametrize("name", ["squad.json", "squad.json.xz", "squad.json.gz"])
def test_squad_has_articles_paragraphs_and_unanswerable_questions(tmp_path: Path, name: str) -> None:
    found = read_passages(write(tmp_path / name, json.dumps(SQUAD)))
    assert found == [Passage(TEXT, "Ann", (WHERE, PassageQuestion("Why?")))]


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.xz", "lines.jsonl.gz"])
def test_a_line_is_a_passage(tmp_path: Path, name: str) -> None:
    found = read_passages(write(tmp_path / name, json.dumps(LINE) + "\n\n"))
    assert found == [Passage(TEXT, "Ann", (WHERE,))]


def test_marked_spans_come_without_their_questions(tmp_path: Path) -> None:
    row = {"document": 3, "context": TEXT, "questions": ["Where?"], "spans": [{"start": 13, "end": 18}]}
    (found,) = read_passages(write(tmp_path / "marked.jsonl", json.dumps(row)))
    assert found.questions == (PassageQuestion("Where?", labelled=False),)
    assert found.spans == ((13, 18),)
    assert found.article == "marked.jsonl/3"


def changed(**other: Any) -> str:
    return json.dumps(LINE | other)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "Input data was truncated"),
        ("[1]", "Expected `object`, got `array`"),
        (json.dumps({"context": TEXT}), "missing required field `questions`"),
        (changed(context=5), "Expected `str`, got `int` - at `$.context`"),
        (changed(questions=[{"question": "Where?"}]), "missing required field `answers`"),
        (changed(questions=["Where?"]), "the question 'Where?' has no answers"),
        (
            changed(questions=[{"question": "Where?", "answers": [{"text": "Leeds", "start": 99}]}]),
            "expected answers that are characters of the passage, got 'Leeds' at 99",
        ),
        (changed(questions=[{"question": "Where?", "answers": [{"text": "", "start": 0}]}]), "got '' at 0"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, part: str) -> None:
    file = write(tmp_path / "lines.jsonl", json.dumps(LINE) + "\n" + line + "\n")
    with pytest.raises(FormatError) as mistake:
        read_passages(file)
    assert str(mistake.value).startswith(f"{file}, line 2")
    assert "\n" not in str(mistake.value)
    assert part in str(mistake.value)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("squad.json", "{", "Input data was truncated"),
        ("squad.json", "{}", "missing required field `data`"),
        (
            "squad.json",
            '{"data": [{"title": "A", "paragraphs": [{"qas": []}]}]}',
            "at `$.data[0].paragraphs[0]`",
        ),
        ("squad.json", '{"data": []}', "has no questions"),
        ("lines.jsonl", "", "has no questions"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: str, part: str) -> None:
    with pytest.raises(FormatError, match=name) as mistake:
        read_passages(write(tmp_path / name, content))
    assert part in str(mistake.value)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize("name", ["cut.json.xz", "cut.json.gz"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    whole = write(tmp_path / name, json.dumps(SQUAD)).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=name):
        read_passages(tmp_path / name)


@pytest.mark.parametrize("name", ["large.json.xz", "large.json.gz", "large.jsonl.xz", "large.jsonl.gz"])
def test_a_file_that_decompresses_to_more_than_the_limit_is_refused(tmp_path: Path, name: str) -> None:
    line = json.dumps(LINE if "jsonl" in name else SQUAD)
    packed = write(tmp_path / name, line + " " * 30_000_000)
    assert packed.stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(
        FormatError, match=rf"{name}: expected at most 1,000,000 bytes when decompressed, got more"
    ):
        read_passages(packed, max_bytes=1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


class TestHoldingOut:
    def passages(self, articles: int) -> list[Passage]:
        return [
            Passage(f"text {number} {part}", f"article {number}")
            for number in range(articles)
            for part in "ab"
        ]

    def test_takes_whole_articles(self) -> None:
        training, held = hold_out(self.passages(40))
        assert len({each.article for each in held}) == 2  # of 40
        assert not {each.article for each in held} & {each.article for each in training}
        assert len(training) + len(held) == 80

    def test_takes_the_same_text_under_another_name_too(self) -> None:
        passages = self.passages(40)
        words = " ".join(f"w{at}" for at in range(15))
        article = hold_out(passages)[1][0].article
        passages = [
            Passage(f"{each.text} {words}", article) if each.article == article else each for each in passages
        ]
        # After all others by name: the group is chosen as before.
        copies = [Passage(words, "copy"), Passage("of the same article", "copy")]
        training, held = hold_out([*passages, *copies])
        assert {article, "copy"} <= {each.article for each in held}
        assert not {article, "copy"} & {each.article for each in training}
