"""Documents survive their files, flat arrays hold them, and drawn questions are answerable from what is left."""

from collections import Counter
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.paper.batches import QuestionDrawer, concatenate_ranges
from attar.paper.cloze import ClozeDocument, DocumentWriter, Question, read_documents
from attar.paper.sets import EncodedSplit, encode_split
from attar.paper.vocabulary import FIRST_ENTITY, PLACEHOLDER, UNKNOWN, Vocabulary

WORDS = Vocabulary(("met", "in", "the", "house", "."), entities=8)
names = st.sampled_from([1, 4, 6, 7])
tokens = st.sampled_from(["met", "in", "the", "."]) | names.map("@entity{}".format)
questions = st.builds(
    lambda before, after, answer: Question((*before, "@placeholder", *after), answer),
    st.lists(tokens, max_size=3),
    st.lists(tokens, max_size=3),
    names,
)
documents = st.builds(
    lambda source, sentences, asked: ClozeDocument("", source, sentences, {}, asked),
    st.sampled_from(["novels", "news"]),
    st.lists(st.lists(tokens, min_size=1, max_size=12), max_size=20),
    st.lists(questions, max_size=3),
)


def assert_equal(one: EncodedSplit, other: EncodedSplit) -> None:
    for field in fields(EncodedSplit):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


ROW = {
    "name": ["a"],
    "source": ["set"],
    "sentences": [["@entity1 met @entity2 ."]],
    "name_ids": [[1, 2]],
    "names": [["Ann", "Bob"]],
    "questions": [["@placeholder met @entity2"]],
    "answers": [[1]],
}


class TestParquet:
    @settings(max_examples=30, deadline=None)  # it writes files
    @given(st.lists(documents, max_size=4))
    def test_documents_survive(self, tmp_path_factory, written: list[ClozeDocument]) -> None:
        path = tmp_path_factory.getbasetemp() / "a.parquet"
        with DocumentWriter(path) as writer:
            for document in written:
                writer.write(document)
        assert list(read_documents(path)) == written

    def test_an_interrupted_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        with DocumentWriter(path) as writer:
            writer.write(ClozeDocument("old", "", [["a"]], {}))
        with pytest.raises(ValueError, match="surrogates"), DocumentWriter(path) as writer:
            writer.write(ClozeDocument("\ud800", "", [["a"]], {}))
        assert [document.name for document in read_documents(path)] == ["old"]
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(
        "change",
        [
            {"name": [None]},
            {"sentences": [["a", None]]},
            {"sentences": ["one string"]},
            {"names": [["Ann"]]},
            {"name_ids": [[1, -2]]},
            {"answers": [[10_000]]},
            {"answers": [[]]},
        ],
        ids=str,
    )
    def test_another_value_is_refused_in_one_line(self, tmp_path: Path, change: dict) -> None:
        pq.write_table(pa.table(ROW), tmp_path / "a.parquet")
        (document,) = read_documents(tmp_path / "a.parquet")
        assert (document.names, document.questions[0].answer) == ({1: "Ann", 2: "Bob"}, 1)
        pq.write_table(pa.table(ROW | change), tmp_path / "a.parquet")
        with pytest.raises(FormatError, match=r"a\.parquet: document 0 is not one of") as refused:
            list(read_documents(tmp_path / "a.parquet"))
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("content", [b"nothing like it", b"PAR1", None], ids=["text", "cut", "missing"])
    def test_another_file_is_refused_by_name(self, tmp_path: Path, content: bytes | None) -> None:
        if content is not None:
            (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(FormatError, match=r"a\.parquet: .*; build the set again"):
            list(read_documents(tmp_path / "a.parquet"))


def decoded(split: EncodedSplit) -> list[ClozeDocument]:
    """The documents again, by nothing but what the arrays' descriptions say."""
    words = {PLACEHOLDER: "@placeholder"} | {
        FIRST_ENTITY + WORDS.entities + at: word for at, word in enumerate(WORDS.words)
    }

    def rows(ids, names, starts, numbers) -> list[list[str]]:
        return [
            [
                f"@entity{numbers[name]}" if name >= 0 else words[number]
                for number, name in zip(ids[start:stop].tolist(), names[start:stop], strict=True)
            ]
            for start, stop in pairwise(starts)
        ]

    found = []
    for d in range(len(split)):
        numbers = split.numbers[split.name_starts[d] : split.name_starts[d + 1]]
        sentences = slice(split.document_sentences[d], split.document_sentences[d + 1] + 1)
        own = slice(split.document_questions[d], split.document_questions[d + 1] + 1)
        asked = rows(split.question_ids, split.question_names, split.question_starts[own], numbers)
        answers = numbers[split.answers[own.start : own.stop - 1]]
        found.append(
            ClozeDocument(
                "",
                split.sources[split.source_of[d]],
                rows(split.ids, split.names, split.sentence_starts[sentences], numbers),
                {},
                [Question(tuple(row), int(answer)) for row, answer in zip(asked, answers, strict=True)],
            )
        )
    return found


class TestArrays:
    @given(st.lists(documents, max_size=5))
    def test_documents_can_be_recovered(self, written: list[ClozeDocument]) -> None:
        assert decoded(encode_split(written, WORDS)) == written

    def test_sentences_end_at_their_last_tokens(self) -> None:
        split = encode_split([ClozeDocument("a", "", [["in", "the"], [], ["house"]], {})], WORDS)
        assert split.sentence_ends.tolist() == [False, True, True]

    @pytest.mark.parametrize("token", ["zebra", "@entity", "@ENTITY5", "@entity005", "@entity٣"])
    def test_a_token_that_is_no_name_is_an_unknown_word(self, token: str) -> None:
        split = encode_split([ClozeDocument("a", "", [["@entity5", token]], {})], WORDS)
        assert (split.ids.tolist(), split.names.tolist()) == ([0, UNKNOWN], [0, -1])

    def test_numbers_beyond_the_vocabulary_are_replaced_and_too_many_names_refused(self) -> None:
        few = ClozeDocument(
            "a", "", [["@entity900", "met", "@entity0"]], {}, [Question(("@placeholder",), 900)]
        )
        split = encode_split([few], WORDS)
        assert (split.numbers.tolist(), split.answers.tolist()) == ([0, 1], [1])
        many = ClozeDocument("b", "", [[f"@entity{n}" for n in range(9)]], {})
        with pytest.raises(FormatError, match="b: expected at most 8 names, got 9"):
            encode_split([many], WORDS)

    def test_the_file_is_loaded_unless_it_is_missing_damaged_or_has_another_note(
        self, tmp_path: Path
    ) -> None:
        split = encode_split([ClozeDocument("a", "novels", [["@entity7", "met"]], {7: "Ann"})], WORDS)
        file = tmp_path / "folder" / "a.safetensors"
        assert EncodedSplit.load(file, "note") is None
        split.save(file, "note")
        loaded = EncodedSplit.load(file, "note")
        assert loaded is not None
        assert_equal(loaded, split)
        assert EncodedSplit.load(file, "another") is None
        data = file.read_bytes()
        for damaged in (b"", data[:100], data[:-1], data[:-1] + b"\x01"):
            file.write_bytes(damaged)
            assert EncodedSplit.load(file, "note") is None


def check_drawn(sentences: list[list[int]], chosen: dict[int, int], count: int) -> None:
    """The rule, in plain Python: what was chosen may be asked, and nothing more could have been."""
    room = min(count, max(1, len(sentences) // 4))
    left = Counter(name for at, sentence in enumerate(sentences) if at not in chosen for name in sentence)
    answers = {sentences[at][blank] for at, blank in chosen.items()}
    assert len(chosen) <= room
    for at, blank in chosen.items():
        assert 6 <= len(sentences[at]) <= 80
        assert sentences[at][blank] >= 0
        assert sentences[at].count(sentences[at][blank]) == 1
    assert all(left[answer] > 0 for answer in answers)
    for at, sentence in enumerate(sentences):
        if len(chosen) < room and at not in chosen and 6 <= len(sentence) <= 80:
            blocked = any(left[name] <= sentence.count(name) for name in answers.intersection(sentence))
            blanks = [n for n in sentence if n >= 0 and sentence.count(n) == 1 and left[n] > 1]
            assert blocked or not blanks, f"sentence {at} could be asked too"


class TestDrawing:
    @given(st.lists(documents, max_size=4), st.integers(0, 99), st.integers(1, 6))
    def test_obeys_the_rule(self, written: list[ClozeDocument], seed: int, count: int) -> None:
        split = encode_split(written, WORDS)
        drawn = QuestionDrawer(split).draw(np.random.default_rng(seed), count)
        for d in range(len(split)):
            first, last = split.document_sentences[d : d + 2]
            rows = pairwise(split.sentence_starts[first : last + 1])
            own = slice(*drawn.document_questions[d : d + 2])
            places = drawn.blanks[own] - split.sentence_starts[drawn.sentences[own]]
            chosen = dict(zip((drawn.sentences[own] - first).tolist(), places.tolist(), strict=True))
            assert all(0 <= sentence < last - first for sentence in chosen)
            check_drawn([split.names[start:stop].tolist() for start, stop in rows], chosen, count)
        assert (np.diff(drawn.sentences) > 0).all()

    def test_all_possible_blanks_are_drawn_equally_often(self) -> None:
        sentence = ["@entity0", "met", "@entity1", "in", "the", "@entity2", "."]
        drawer = QuestionDrawer(encode_split([ClozeDocument("", "", [sentence] * 4, {})], WORDS))
        rng = np.random.default_rng(0)
        drawn = Counter(int(drawer.draw(rng, 1).blanks[0]) for _ in range(1200))
        assert sorted(drawn) == [7 * row + place for row in range(4) for place in (0, 2, 5)]
        assert all(60 < times < 140 for times in drawn.values())

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
    def test_ranges_are_concatenated(self, pairs: list[tuple[int, int]]) -> None:
        starts, lengths = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        expected = [number for start, length in pairs for number in range(start, start + length)]
        assert concatenate_ranges(starts, starts + lengths).tolist() == expected
