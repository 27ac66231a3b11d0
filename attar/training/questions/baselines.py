"""What a reader must beat: counting capitalised phrases, word overlap with sentences, and BM25 over sentences."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from attar.text.tokens import sentence_spans
from attar.training.questions.metrics import Given

_WORD = re.compile(r"\w+")
# Capitalised words in a row, with small words between them, or a number with what belongs to it.
_PHRASE = re.compile(
    r"[A-Z][\w'’-]*(?:\s+(?:of|the|de|and)\s+[A-Z][\w'’-]*|\s+[A-Z][\w'’-]*)*|\$?\d[\d,.]*(?:\s?%|\s+(?:million|billion))?"
)
_COMMON = frozenset(
    _WORD.findall(
        "a an the of in on at to for by with from and or is was were are be been did do does has had have who whom "
        "whose what which when where why how many much it its he she they his her their this that as than"
    )
)
_K1, _B = 1.2, 0.75

Baseline = Callable[[str, str], Given]


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The sentences of a text, and their words."""
    found = (text[start:end] for start, end in sentence_spans(text))
    return tuple((sentence, tuple(_words(sentence))) for sentence in found)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _COMMON]


@lru_cache(maxsize=64)
def _phrase_counts(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(_phrases(text)).most_common())


def _phrases(text: str) -> list[str]:
    """Capitalised phrases and numbers; common words at their start are left out.

    >>> _phrases("In 1066 the Duke of Normandy came.")
    ['1066', 'Duke of Normandy']
    """
    found = []
    for match in _PHRASE.finditer(text):
        words = match[0].rstrip(".,").split()
        while words and words[0].lower() in _COMMON:
            words.pop(0)
        if words:
            found.append(" ".join(words))
    return found


def counting(text: str, question: str) -> Given:
    """The most frequent capitalised phrase that the question does not mention.

    >>> counting("Ann met Bob. Ann left. Bob met Ann.", "Whom did Ann meet?").text
    'Bob'
    """
    asked = question.lower()
    best = next((phrase for phrase, _ in _phrase_counts(text) if phrase.lower() not in asked), "")
    quote = next((sentence for sentence, _ in _sentences(text) if best and best in sentence), "")
    return Given(best, quote)


def overlap(text: str, question: str) -> Given:
    """The first phrase, not mentioned by the question, of the sentence that shares most words with it.

    >>> overlap("Ann lives in Leeds. Bob lives in Dover.", "Where does Bob live, who lives alone?").text
    'Dover'
    """
    asked = set(_words(question))
    shared = [len(asked.intersection(words)) for _, words in _sentences(text)]
    return _from_sentence(text, question, shared)


def bm25(text: str, question: str) -> Given:
    """The sentence that BM25 ranks first, and a phrase of it as with word overlap.

    >>> bm25("Ann lives in Leeds. Bob lives in Dover.", "Where does Bob live?").quote
    'Bob lives in Dover.'
    """
    sentences = _sentences(text)
    if not sentences:
        return Given("")
    mean = sum(len(words) for _, words in sentences) / len(sentences) or 1.0
    holding: Counter[str] = Counter(word for _, words in sentences for word in set(words))
    scores = []
    for _, words in sentences:
        counts, total = Counter(words), 0.0
        for word in set(_words(question)):
            if counts[word]:
                rarity = math.log(1 + (len(sentences) - holding[word] + 0.5) / (holding[word] + 0.5))
                norm = counts[word] + _K1 * (1 - _B + _B * len(words) / mean)
                total += rarity * counts[word] * (_K1 + 1) / norm
        scores.append(total)
    return _from_sentence(text, question, scores)


def _from_sentence(text: str, question: str, scores: Sequence[float]) -> Given:
    sentences = _sentences(text)
    if not sentences:
        return Given("")
    sentence, _ = sentences[max(range(len(scores)), key=lambda at: (scores[at], -at))]
    asked = question.lower()
    phrase = next((phrase for phrase in _phrases(sentence) if phrase.lower() not in asked), "")
    return Given(phrase, sentence)


BASELINES: dict[str, Baseline] = {
    "most frequent capitalised phrase": counting,
    "word overlap: a phrase of the best sentence": overlap,
    "BM25: a phrase of the best sentence": bm25,
}
