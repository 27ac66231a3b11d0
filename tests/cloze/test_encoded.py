"""A split as flat arrays: documents can be recovered from them, and the cached file is never stale."""

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.cloze import encoded as encoded_module
from attar.cloze.documents import ClozeDocument, DocumentWriter, Question
from attar.cloze.encoded import EncodedSplit, encode_split, open_split
from attar.errors import FormatError
from attar.text.vocabulary import Vocabulary
from benchmarks.question_files import write_folder
from benchmarks.stories import story_document, tell_stories

VOCABULARY_FILE = Vocabulary(("met", "in", "the", "house", "."), entities=8)
names = st.sampled_from([1, 4, 6, 7])
tokens = st.sampled_from(["met", "in", "the", "."]) | names.map("@entity{}".format)
questions = st.builds(
    lambda before, after, answer: Question((*before, "@placeholder", *after), answer),
    st.lists(tokens, max_size=3),
    st.lists(tokens, max_size=3),
    names,
)
documents = st.lists(
    st.builds(
        lambda source, sentences, asked: ClozeDocument("", source, sentences, {}, asked),
        st.sampled_from(["novels", "news"]),
        st.lists(st.lists(tokens, min_size=1, max_size=6), max_size=4),
        st.lists(questions, max_size=3),
    ),
    max_size=5,
)


def decoded(split: EncodedSplit, vocabulary: Vocabulary) -> list[ClozeDocument]:
    """The documents again, by nothing but what the arrays' descriptions say."""

    def rows(ids: np.ndarray, names: np.ndarray, starts: np.ndarray, numbers: np.ndarray) -> list[list[str]]:
        return [
            [
                f"@entity{numbers[name]}" if name >= 0 else vocabulary.tokens[number]
                for number, name in zip(ids[start:stop], names[start:stop], strict=True)
            ]
            for start, stop in pairwise(starts)
        ]

    found = []
    for d in range(len(split)):
        numbers = split.numbers[split.name_starts[d] : split.name_starts[d + 1]]
        sentences = slice(split.document_sentences[d], split.document_sentences[d + 1] + 1)
        own = slice(split.document_questions[d], split.document_questions[d + 1] + 1)
        assert split.sentence_starts[sentences][0] == split.document_starts[d]
        assert split.sentence_starts[sentences][-1] == split.document_starts[d + 1]
        asked = rows(split.question_ids, split.question_names, split.question_starts[own], numbers)
        answers = numbers[split.answers[own.start : own.stop - 1]]
        document = ClozeDocument(
            "",
            split.sources[split.source_of[d]],
            rows(split.ids, split.names, split.sentence_starts[sentences], numbers),
            {},
            [Question(tuple(row), int(answer)) for row, answer in zip(asked, answers, strict=True)],
        )
        found.append(document)
    return found


def assert_equal(one: EncodedSplit, other: EncodedSplit) -> None:
    for each in fields(EncodedSplit):
        np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name), each.name)


def some_documents() -> list[ClozeDocument]:
    asked = [Question(("@placeholder", "met", "@entity2", "."), 7)]
    return [
        ClozeDocument("a", "novels", [["@entity7", "met", "@entity2"], ["@entity7", "."]], {7: "Ann"}, asked),
        ClozeDocument("b", "news", [["in", "the", "house"]], {}),
    ]


@given(documents)
def test_documents_can_be_recovered_from_the_arrays(given_documents: list[ClozeDocument]) -> None:
    assert decoded(encode_split(given_documents, VOCABULARY_FILE), VOCABULARY_FILE) == given_documents


def test_stories_can_be_recovered_from_the_arrays() -> None:
    stories = [story_document(story, "", seed) for seed, story in enumerate(tell_stories(3, 6))]
    words = {word: 0 for document in stories for row in document.sentences for word in row}
    words |= {word: 0 for document in stories for asked in document.questions for word in asked.tokens}
    vocabulary = Vocabulary(tuple(word for word in words if not word.startswith("@")), entities=20)
    for one, other in zip(decoded(encode_split(stories, vocabulary), vocabulary), stories, strict=True):
        assert one.sentences == other.sentences
        assert one.questions == other.questions


def test_a_documents_names_are_numbered_from_0_without_gaps() -> None:
    split = encode_split(some_documents(), VOCABULARY_FILE)
    assert split.names.tolist() == [1, -1, 0, 1, -1, -1, -1, -1]
    assert split.numbers.tolist() == [2, 7]
    assert split.answers.tolist() == [1]


def test_names_have_id_0() -> None:
    split = encode_split(some_documents(), VOCABULARY_FILE)
    assert not split.ids[split.names >= 0].any()
    assert not split.question_ids[split.question_names >= 0].any()


def test_an_unknown_word_is_not_a_name() -> None:
    split = encode_split(
        [ClozeDocument("a", "", [["zebra", "@placeholder", "@entity"]], {})], VOCABULARY_FILE
    )
    assert split.ids.tolist() == [
        VOCABULARY_FILE.unknown,
        VOCABULARY_FILE.placeholder,
        VOCABULARY_FILE.unknown,
    ]
    assert split.names.tolist() == [-1, -1, -1]


def test_sentences_end_at_their_last_tokens() -> None:
    split = encode_split(some_documents(), VOCABULARY_FILE)
    assert split.sentence_ends.nonzero()[0].tolist() == [2, 4, 7]
    assert split.lengths.tolist() == [5, 3]


def test_a_sentence_of_no_tokens_ends_nothing() -> None:
    document = ClozeDocument("a", "", [[], ["the", "house"], [], ["met"]], {})
    unfinished = ClozeDocument("b", "", [["in", "the"], []], {})
    split = encode_split([document, unfinished], VOCABULARY_FILE)
    assert split.sentence_ends.nonzero()[0].tolist() == [1, 2, 4]
    leading = encode_split([ClozeDocument("c", "", [[]], {})], VOCABULARY_FILE)
    assert leading.sentence_ends.tolist() == []


def test_an_answer_that_is_not_in_the_text_has_a_number() -> None:
    asked = [Question(("@placeholder", "met"), 5)]
    split = encode_split([ClozeDocument("a", "", [["@entity6", "met"]], {}, asked)], VOCABULARY_FILE)
    assert split.numbers[split.answers].tolist() == [5]


def test_no_documents_make_an_empty_split() -> None:
    split = encode_split([], VOCABULARY_FILE)
    assert len(split) == 0
    assert split.sources == ()
    assert split.lengths.tolist() == split.sentence_ends.tolist() == []


@pytest.mark.parametrize("where", ["text", "question", "answer"])
def test_a_number_beyond_the_vocabularys_becomes_a_free_one(where: str) -> None:
    asked = {"text": [], "question": [Question(("@entity900",), 0)], "answer": [Question(("the",), 900)]}
    sentences = [["@entity0", "met", "@entity2"], ["@entity900" if where == "text" else "the"]]
    split = encode_split([ClozeDocument("a", "", sentences, {}, asked[where])], VOCABULARY_FILE)
    assert split.numbers.tolist() == [0, 1, 2]
    found = {"text": split.names[3:], "question": split.question_names, "answer": split.answers}[where]
    assert found.tolist() == [1]


def test_documents_with_too_many_names_are_refused_or_skipped() -> None:
    many = ClozeDocument("a", "", [[f"@entity{n}" for n in range(9)]], {})
    with pytest.raises(FormatError, match="a: expected at most 8 names, got 9"):
        encode_split([many], VOCABULARY_FILE)
    skipped: list[FormatError] = []
    split = encode_split([many, *some_documents()], VOCABULARY_FILE, skipped.append)
    assert_equal(split, encode_split(some_documents(), VOCABULARY_FILE))
    assert len(skipped) == 1


@pytest.mark.parametrize("token", ["@ENTITY5", "@entity005", "@entity" + "9" * 5000, "@entity٣"])
def test_a_token_that_only_resembles_a_name_is_an_unknown_word(token: str) -> None:
    split = encode_split([ClozeDocument("a", "", [[token]], {})], VOCABULARY_FILE)
    assert (split.ids.tolist(), split.names.tolist()) == ([VOCABULARY_FILE.unknown], [-1])


class TestFile:
    def test_loads_everything_that_was_saved(self, tmp_path: Path) -> None:
        split = encode_split(some_documents(), VOCABULARY_FILE)
        split.save(tmp_path / "folder" / "a.safetensors", "note")
        loaded = EncodedSplit.load(tmp_path / "folder" / "a.safetensors", "note")
        assert loaded is not None
        assert_equal(loaded, split)
        assert [file.name for file in (tmp_path / "folder").iterdir()] == ["a.safetensors"]

    def test_is_none_if_missing_or_written_with_another_note(self, tmp_path: Path) -> None:
        file = tmp_path / "a.safetensors"
        assert EncodedSplit.load(file) is None
        encode_split(some_documents(), VOCABULARY_FILE).save(file, "one")
        assert EncodedSplit.load(file, "two") is None
        assert EncodedSplit.load(file) is not None

    @pytest.mark.parametrize("kept", [0, 7, 100, -1])
    def test_is_none_if_incomplete(self, tmp_path: Path, kept: int) -> None:
        file = tmp_path / "a.safetensors"
        encode_split(some_documents(), VOCABULARY_FILE).save(file)
        file.write_bytes(file.read_bytes()[:kept])
        assert EncodedSplit.load(file) is None

    @pytest.mark.parametrize(
        "change",
        [
            {"ids": np.array([0, 11, 0, 0, 99, 12, 13, 14], np.int32)},
            {"ids": np.zeros(8)},
            {"ids": np.zeros(7, np.int32)},
            {"ids": np.zeros((8, 1), np.int32)},
            {"names": np.full(8, 5, np.int32)},
            {"names": np.full(8, -2, np.int32)},
            {"document_starts": np.array([0, 9, 8])},
            {"document_starts": np.array([0, 5, 2**40])},
            {"document_starts": np.zeros(0, np.int64)},
            {"question_starts": np.array([0, 3])},
            {"answers": np.array([7], np.int32)},
            {"answers": np.zeros(0, np.int32)},
            {"numbers": np.array([2, -7], np.int32)},
            {"source_of": np.array([0, 2], np.int32)},
            {"sources": (1, 2)},
        ],
        ids=str,
    )
    def test_is_none_if_types_lengths_or_ranges_do_not_fit(self, tmp_path: Path, change: dict) -> None:
        split = encode_split(some_documents(), VOCABULARY_FILE)
        split.save(tmp_path / "a")
        assert EncodedSplit.load(tmp_path / "a", "", len(VOCABULARY_FILE)) is not None
        replace(split, **change).save(tmp_path / "a")
        assert EncodedSplit.load(tmp_path / "a", "", len(VOCABULARY_FILE)) is None


class TestOpenSplit:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        with DocumentWriter(tmp_path / "training.parquet") as writer:
            for document in some_documents():
                writer.write(document)
        return tmp_path

    @pytest.fixture
    def encoded(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The vocabularies' fingerprints that a split was encoded with, call by call."""
        calls: list[str] = []

        def note_and_encode(
            given_documents: object, vocabulary: Vocabulary, on_malformed: object
        ) -> EncodedSplit:
            calls.append(vocabulary.fingerprint)
            return encode_split(given_documents, vocabulary, on_malformed)  # type: ignore[arg-type]

        monkeypatch.setattr(encoded_module, "encode_split", note_and_encode)
        return calls

    def test_encodes_once_and_loads_the_cache(self, folder: Path, encoded: list[str]) -> None:
        first, second = (open_split(folder, "training", VOCABULARY_FILE) for _ in range(2))
        assert_equal(first, second)
        assert len(encoded) == 1
        assert len(list((folder / "encoded").iterdir())) == 1

    def test_caches_one_file_per_vocabulary(self, folder: Path, encoded: list[str]) -> None:
        other = Vocabulary(("met", "the"), entities=8)
        for vocabulary in (VOCABULARY_FILE, other, VOCABULARY_FILE, other):
            open_split(folder, "training", vocabulary)
        assert encoded == [VOCABULARY_FILE.fingerprint, other.fingerprint]

    def test_encodes_again_after_the_set_was_built_again(self, folder: Path) -> None:
        open_split(folder, "training", VOCABULARY_FILE)
        with DocumentWriter(folder / "training.parquet") as writer:
            for document in some_documents():
                document.sentences[0][1] = "the"
                writer.write(document)
        split = open_split(folder, "training", VOCABULARY_FILE)
        assert split.ids[1] == VOCABULARY_FILE.ids["the"]

    def test_encodes_again_after_a_rebuild_of_the_same_size(self, folder: Path) -> None:
        def write(words: list[str]) -> int:
            with DocumentWriter(folder / "training.parquet") as writer:
                writer.write(ClozeDocument("a", "", [words], {}))
            return (folder / "training.parquet").stat().st_size

        before = write(["the", "house", "in", "met"])
        open_split(folder, "training", VOCABULARY_FILE)
        assert write(["met", "house", "in", "the"]) == before
        split = open_split(folder, "training", VOCABULARY_FILE)
        assert VOCABULARY_FILE.decode(split.ids.tolist()) == ["met", "house", "in", "the"]

    def test_replaces_a_damaged_file(self, folder: Path) -> None:
        first = open_split(folder, "training", VOCABULARY_FILE)
        (file,) = (folder / "encoded").iterdir()
        file.write_bytes(b"\x10\0\0\0\0\0\0\0not json at all.")
        assert_equal(open_split(folder, "training", VOCABULARY_FILE), first)

    def test_needs_no_write_permission(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError("read-only")

        monkeypatch.setattr(EncodedSplit, "save", refuse)
        assert len(open_split(folder, "training", VOCABULARY_FILE)) == 2
        assert not (folder / "encoded").exists()

    def test_follows_a_folder_of_question_files(self, tmp_path: Path) -> None:
        place = tmp_path / "questions" / "training"
        write_folder(iter(some_documents()[:1]), place)
        assert len(open_split(tmp_path, "training", VOCABULARY_FILE)) == 1
        more = some_documents()[0]
        more.name = "another"
        write_folder(iter([more]), place)
        assert len(open_split(tmp_path, "training", VOCABULARY_FILE)) == 2

    def test_caches_a_split_without_malformed_files_for_callers_that_skip_them(
        self, tmp_path: Path, encoded: list[str]
    ) -> None:
        place = tmp_path / "questions" / "training"
        write_folder(iter(some_documents()[:1]), place)
        (place / "bad.question").write_text("oops")
        skipped: list[FormatError] = []
        for _ in range(2):
            assert len(open_split(tmp_path, "training", VOCABULARY_FILE, on_malformed=skipped.append)) == 1
        assert len(encoded) == 1
        first, again = map(str, skipped)
        assert first == again
        with pytest.raises(FormatError, match=r"bad\.question, line 1"):
            open_split(tmp_path, "training", VOCABULARY_FILE)

    def test_encodes_again_if_the_skipped_files_are_not_known(
        self, tmp_path: Path, encoded: list[str]
    ) -> None:
        write_folder(iter(some_documents()[:1]), tmp_path / "questions" / "training")
        open_split(tmp_path, "training", VOCABULARY_FILE, on_malformed=lambda fault: None)
        (tmp_path / "questions" / "training.parquet").unlink()
        open_split(tmp_path, "training", VOCABULARY_FILE, on_malformed=lambda fault: None)
        assert len(encoded) == 2

    def test_names_a_folder_of_question_files_by_its_current_name(self, tmp_path: Path) -> None:
        write_folder(iter(some_documents()[:1]), tmp_path / "cnn" / "questions" / "training")
        assert open_split(tmp_path / "cnn" / "questions", "training", VOCABULARY_FILE).sources == (
            "questions",
        )
        assert open_split(tmp_path / "cnn", "training", VOCABULARY_FILE).sources == ("cnn",)
        moved = (tmp_path / "cnn").rename(tmp_path / "news")
        assert open_split(moved, "training", VOCABULARY_FILE).sources == ("news",)

    def test_a_missing_split_is_refused(self, folder: Path) -> None:
        with pytest.raises(FormatError, match="split: expected training, got 'test'"):
            open_split(folder, "test", VOCABULARY_FILE)
