"""Texts that readers must read, and what must hold of their memories."""

import json
from pathlib import Path

import numpy as np

from attar.memory.memory import Memory
from attar.text.sentences import sentence_spans

SHORT = "Ann met Bob in Bath. He wrote a letter to the house of Lee."
ODD = {
    "control characters": "\x00\x07Ann\x1b met\u200b Bob.\x00 \x01\x02 He left.\x7f",
    "emoji": "🙂 Ann 👩‍👩‍👧 met 🙂🙂 Bob. 🙂 left.",
    "Chinese": "安在巴斯见到了鲍勃。他写了一封信。" * 60,
    "Korean": "안녕하세요안은배스에서밥을만났다" * 60,
    "Arabic": "التقت آن بوب في باث. كتب رسالة.",
    "combining": "A\u0301nn\u0308 met Z\u0308oe. E\u0301 left.",
    "lone surrogates": "Ann \ud800 met \udfff Bob. He \ud83d left.",
    "one long word": "Ann met " + "x" * 70_000 + " in Bath. Bob left.",
    "no spaces": "ann,bob;" * 900,
    "blank lines": "\n\n \n\nAnn met Bob.\n\n\n\n\nHe left.\n \n",
    "spaces": " \n\t ",
    "empty": "",
    "one word": "Ann",
    "a full stop": ".",
}
_WORDS = "Ann Bob Lee the house Bath letter ran wrote quickly and 1999 of Zoe"
_EVERYDAY = Path(__file__).parents[2] / "benchmarks" / "questions" / "everyday.json"


def story(sentences: int, seed: int = 0) -> str:
    """Sentences of 1 to 30 words, some of them the last of a paragraph."""
    rng, words = np.random.default_rng(seed), _WORDS.split()
    made = [" ".join(rng.choice(words, rng.integers(1, 30))) + "." for _ in range(sentences)]
    return "".join(sentence + ("\n\n" if rng.random() < 0.1 else " ") for sentence in made)


def everyday(characters: int, start: int = 0) -> str:
    """Real sentences of all lengths: of generated ones the words compress too well."""
    articles = json.loads(_EVERYDAY.read_text())["data"]
    text = "\n\n".join(part["context"] for article in articles for part in article["paragraphs"])
    return (text * (1 + (start + characters) // len(text)))[start : start + characters]


def check_sound(memory: Memory, text: str) -> None:
    """Every phrase is the text at its place, inside its sentence; the memory can be written and read."""
    index, spans = memory.phrases, list(sentence_spans(text))
    assert index.characters == len(text)
    for at in range(len(index)):
        start, (first, last) = int(index.starts[at]), index.sentence_of(at)
        assert index.text_of(at) == text[start : start + int(index.lengths[at])]
        assert (first, last) in spans
        assert first <= start <= start + int(index.lengths[at]) <= last
    assert text.endswith(index.tail)
    assert Memory.from_bytes(memory.to_bytes()) == memory
