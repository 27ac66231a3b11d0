"""Questions encoded in numpy have the numbers of the network but for int8, and need no torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from attar.library.library import Library
from attar.reader.fast_bank import padded
from attar.reader.questions import QuestionEncoder

pytestmark = pytest.mark.slow

QUESTIONS = ["Who met Bob?", "", "What was in the letter to Ann and Lee?", "who " * 300, "🙂 \ud800 你好"]


def pieces_of(parts, questions):
    return [pieces[:256] for pieces in parts.tokenizer.read_questions(questions)]


def cosine(found, expected):
    """The least cosine of their rows."""
    one, other = (np.atleast_2d(numbers).astype(np.float64) for numbers in (found, expected))
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / np.maximum(norms, 1e-30)).min(where=norms > 0, initial=1.0))


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("kind", ["random weights", "shipped"])
def test_it_agrees_with_the_network(kind, quick, reader, default):
    parts = (reader if kind == "random weights" else default).parts
    for questions in (QUESTIONS, QUESTIONS[:1]):
        pieces = pieces_of(parts, questions)
        ids, mask = map(torch.from_numpy, padded(pieces))
        with torch.inference_mode():
            plain = parts.network().encode_questions(ids, mask, parts.quick() if quick else None)
        vectors, nulls, weights = QuestionEncoder(parts, quick=quick).encode_pieces(pieces)
        expected = [part.numpy() for part in (*plain[:2], plain[2][:, 1:][mask[:, 1:]])]
        of_pieces = np.concatenate([row[1:] for row in weights])
        for one, other in zip((vectors, nulls, of_pieces), expected, strict=True):
            assert one.dtype == np.float32
            assert cosine(one, other) > 0.99


def test_it_has_the_same_numbers_with_and_without_torch(default, monkeypatch):
    def encode():
        *found, weights = QuestionEncoder(default.parts).encode_pieces(pieces_of(default.parts, QUESTIONS))
        return *found, np.concatenate(weights)

    with_torch = encode()
    monkeypatch.setitem(sys.modules, "torch", None)
    for expected, found in zip(with_torch, encode(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_question_has_the_same_numbers_whatever_is_asked_with_it(default):
    whole, *_ = default.questions.encode([QUESTIONS[2], *QUESTIONS])
    (alone,) = default.questions.encode([QUESTIONS[2]])
    np.testing.assert_allclose(whole.vector, alone.vector, rtol=1e-5, atol=1e-6)


def test_queries_have_the_states_of_texts(reader, default):
    for own in (reader, default):
        for text in ("", "Who met Bob?", "Who? " * 300):
            windows = []
            own.token_states([text], lambda _, *window, found=windows: found.append(window))
            for ids, expected in windows:
                assert cosine(own.query_states(ids), expected) > 0.999


def test_a_library_answers_without_torch(tmp_path):
    with Library(tmp_path / "library") as library:
        library.add("letter", "Ann moved to Leeds in May. Bob stayed in Bath.")
        expected = library.ask("letter", "Where did Ann move?")
    code = (
        "import sys; from attar import Library\n"
        "library = Library(sys.argv[1], read_only=True)\n"
        "answers = library.ask('letter', 'Where did Ann move?')\n"
        "assert library.ask_all('Where did Ann move?')[0].text == answers[0].text\n"
        "assert library.search('Ann')[0].document == 'letter'\n"
        "library.reader.prepare(texts=False)\n"
        "assert not {'torch', 'scipy', 'numba'} & set(sys.modules)\n"
        "for answer in answers: print(repr((answer.text, answer.quote, round(answer.probability, 3))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "library"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [
        repr((answer.text, answer.quote, round(answer.probability, 3))) for answer in expected
    ]
