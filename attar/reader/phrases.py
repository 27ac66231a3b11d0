"""PhraseReader: answers real questions with phrases of the text, by a transformer that reads without the questions.

A text: word pieces → windows of whole sentences → hidden states → phrase vectors, the likeliest kept → memory.
A question: word pieces → query, weights of its words → one score per phrase → answers, or "not in this text".
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, ShapeError
from attar.memory import Floats, Memory, PhraseIndex
from attar.nn import LONGEST
from attar.progress import Progress, tell_nobody
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader
from attar.reader.phrase_questions import QuestionEncoder
from attar.reader.phrase_scores import Query, rank
from attar.reader.phrase_texts import Draft, Phrases, Window, text_groups
from attar.reader.reader import Reader
from attar.results import Answer, Explanation
from attar.text import NameTable, sentence_spans

if TYPE_CHECKING:
    import torch

    from attar.nn import PhraseNetwork, QuickQuestions

# Pieces per window, and from which on a window ends at a blank line.
WINDOW, PARAGRAPH = 318, 128
# Windows per batch: the states of more do not stay in the caches, and are read more slowly.
_WINDOWS = 4
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000
# Sentences tokenized at a time.
_SENTENCES = 2_000


class PhraseReader(Reader):
    """Reads texts into phrases, and answers questions from these."""

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self.tokenizer, self.options = saved.tokenizer, saved.options
        self.fingerprint, self.about = saved.fingerprint, saved.about
        self.density, self.calibration = saved.density, saved.calibration
        self._saved, self._is_quick = saved, quick
        self._encoder = QuestionEncoder(saved, quick=quick)

    @property
    def network(self) -> "PhraseNetwork":
        """The network that reads texts; made when it is first needed, with torch."""
        return self._saved.network

    @property
    def quick(self) -> "QuickQuestions | None":
        """The quick question encoder, if it is used."""
        return self._saved.quick if self._is_quick else None

    def prepare(self) -> None:
        """Load now what the first text or the first batch of questions would wait for: torch and the network."""
        self.network  # noqa: B018  # made on first access
        self._encoder.words  # noqa: B018

    def save(self, path: str | Path) -> str:
        """Write the reader to a folder and return its fingerprint."""
        saved = self._saved
        return save_phrase_reader(
            path,
            saved.network,
            saved.quick,
            saved.tokenizer.data,
            saved.about,
            density=saved.density,
            calibration=saved.calibration,
        )

    def read(self, text: str, *, budget: int | None = None) -> Memory:
        """The memory of a text; `budget` caps its bytes, and the phrases least likely to be asked about are dropped."""
        return self.read_many([text], budget=budget)[0]

    def read_many(
        self,
        texts: Sequence[str],
        *,
        shared_names: bool = False,
        batch_size: int = _WINDOWS,
        budget: int | None = None,
        progress: Progress = tell_nobody,
    ) -> list[Memory]:
        """The memories of texts, in order; `shared_names` has no effect, as phrases always merge."""
        if batch_size < 1:
            raise OptionError("batch_size", "an integer of at least 1", repr(batch_size))
        memories: list[Memory] = []
        for group in text_groups(texts):
            memories += self._read([(text, None) for text in group], batch_size, budget, progress)
        return memories

    def extend(
        self, memory: Memory, text: str, *, budget: int | None = None, progress: Progress = tell_nobody
    ) -> Memory:
        """The memory of both texts, the second a new paragraph: the same as reading them at once."""
        self.check_memory(memory)
        return self._read([(text, memory)], _WINDOWS, budget, progress)[0]

    def _read(
        self,
        texts: Sequence[tuple[str, Memory | None]],
        batch_size: int,
        budget: int | None,
        progress: Progress,
    ) -> list[Memory]:
        """The memories of texts, each after the memory that it extends; all their windows are encoded together."""
        drafts = [Draft.of(text, before, self._windows) for text, before in texts]
        windows = [window for draft in drafts for window in draft.windows]
        # Windows of similar length share a batch: little of it is padding.
        order = sorted(range(len(windows)), key=lambda at: len(windows[at].ids))
        found: dict[int, tuple[Phrases, Floats]] = {}
        for first in range(0, len(order), batch_size):
            progress("reading", first, len(order))
            chosen = order[first : first + batch_size]
            found.update(zip(chosen, self._encode([windows[at] for at in chosen]), strict=True))
        encoded = iter([found[at] for at in range(len(windows))])
        memories = []
        for draft in drafts:
            index, numbers = draft.index([next(encoded) for _ in draft.windows], self.options.size)
            memory = Memory(
                "phrases", numbers, None, draft.tokens, self.options.size, np.zeros(0, np.float32),
                NameTable(), "phrases", self.fingerprint, None, index,
            ).astype("int8")  # fmt: skip
            memories.append(memory if budget is None else within_budget(memory, budget))
        return memories

    def _windows(self, text: str) -> list[Window]:
        """A text in windows of whole sentences, each decided by what is before its end."""
        spans = list(sentence_spans(text))
        windows: list[Window] = []
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
        count = 0

        def close() -> None:
            nonlocal parts, count
            if parts:
                numbers = [np.full(len(ids), at) for ids, _, at in parts]
                ids, places = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
                windows.append(Window(ids, places, np.concatenate(numbers)))
            parts, count = [], 0

        for first in range(0, len(spans), _SENTENCES):
            chunk = spans[first : first + _SENTENCES]
            read = self.tokenizer.read_sentences([text[start:end] for start, end in chunk])
            for at, ((start, _), (ids, places)) in enumerate(zip(chunk, read, strict=True), first):
                new_paragraph = at > 0 and "\n\n" in text[spans[at - 1][1] : start].replace(" ", "")
                if count + len(ids) > WINDOW or (new_paragraph and count >= PARAGRAPH):
                    close()
                for cut in range(0, len(ids), WINDOW):
                    if count and cut:
                        close()
                    piece = slice(cut, cut + WINDOW)
                    parts.append((ids[piece], places[piece] + start, at))
                    count += len(ids[piece])
        close()
        return windows

    def _encode(self, windows: Sequence[Window]) -> Iterable[tuple[Phrases, Floats]]:
        """The phrases of each window, in the order of the text, and their vectors."""
        import torch

        from attar.nn import valid_spans
        from attar.reader.encoding import inference

        ids, mask, _ = _pad([window.ids for window in windows], self.tokenizer.cls, self.tokenizer.sep)
        sentences, _, inside = _pad([window.sentences for window in windows], 0, 0)
        # Several threads pay for several windows only: they wait for each other, long on a busy machine.
        with inference() if len(windows) == 1 else torch.inference_mode():
            texts = self.network.encode_texts(ids, mask)
            valid = valid_spans(sentences, inside) & self._whole_words(ids)
            priors = self.network.priors(texts, valid).flatten(1)
        for row, window in enumerate(windows):
            count = min(int(np.ceil(self.density * len(window.ids))), int(priors[row].isfinite().sum()))
            chosen = priors[row].topk(count).indices.sort().values
            first, last = chosen // LONGEST, chosen // LONGEST + chosen % LONGEST
            lengths = window.places[last.numpy() - 1, 1] - window.places[first.numpy() - 1, 0]
            short = torch.from_numpy(lengths <= _LONGEST_PHRASE)
            chosen, first, last = chosen[short], first[short], last[short]
            vectors: Floats = (texts.firsts[row, first] + texts.lasts[row, last]).numpy()
            values = priors[row, chosen].tolist()
            a, b = (first - 1).numpy(), (last - 1).numpy()
            starts, ends = window.places[a, 0].tolist(), window.places[b, 1].tolist()
            numbers = window.sentences[a].tolist()
            yield list(zip(starts, ends, numbers, values, strict=True)), vectors

    def _whole_words(self, ids: "torch.Tensor") -> "torch.Tensor":
        """Where a span neither starts nor ends inside a word, `[B, n, w]`."""
        import torch

        from attar.nn import following

        inner = torch.from_numpy(self.tokenizer.continuing[ids.numpy()])
        ends = torch.nn.functional.pad(~inner[:, 1:], (0, 1), value=True)
        return ~inner[..., None] & (following(ends.float()) > 0)

    def answer_many(
        self,
        memories: Memory | Sequence[Memory],
        questions: str | Sequence[str],
        *,
        top: int | None = None,
        texts: Sequence[str | None] | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from its memory; a single memory or question is used for all."""
        about, asked = self._checked(memories, questions, top)
        given = [None] * len(about) if texts is None else list(texts)
        if len(given) != len(about):
            raise ShapeError("texts", f"one for each of {len(about)} memories", str(len(given)))
        queries = self._encoder.encode(asked)
        return [
            self._rank(memory, query, top, text)
            for memory, query, text in zip(about, queries, given, strict=True)
        ]

    def explain(self, text: str, question: str) -> Explanation:
        """The answers to a question on a text, and the weight of each word for it: that of its sentence."""
        memory = self.read(text)
        answers = self.answer(memory, question, text=text)
        (query,) = self._encoder.encode([question])
        index = memory.phrases
        assert index is not None  # of a phrase reader
        overlap = query.overlap(index, self._encoder.neighbours)
        tokens, weights = [], []
        for at, (start, end) in enumerate(sentence_spans(text)):
            words = text[start:end].split()
            tokens += words
            weights += [float(overlap[at])] * len(words)
        return Explanation(tokens, weights, answers)

    def _rank(self, memory: Memory, query: Query, top: int | None, text: str | None) -> list[Answer]:
        index = memory.phrases
        assert index is not None  # checked
        vectors = memory.to_float32()
        scores = vectors @ query.vector * self.options.size**-0.5 + index.priors.astype(np.float32)
        if len(scores):
            scores += query.overlap(index, self._encoder.neighbours)[index.sentences]
            query.lower_repeated(scores, index)
        return rank(scores, query.null, index, top, text, self.calibration)


def within_budget(memory: Memory, budget: int) -> Memory:
    """The memory with only as many phrases, the likeliest to be asked about, as `budget` bytes hold."""
    index = memory.phrases
    if index is None or memory.nbytes <= budget:
        return memory
    order = np.argsort(-index.priors.astype(np.float32), kind="stable")
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if _take(memory, index, order[:middle]).nbytes <= budget:
            low = middle
        else:
            high = middle - 1
    smallest = _take(memory, index, order[:low])
    if smallest.nbytes > budget:
        remedy = "give more, or no budget"
        raise OptionError("budget", f"at least {smallest.nbytes} bytes for this text", str(budget), remedy)
    return smallest


def _take(memory: Memory, index: PhraseIndex, chosen: NDArray[np.intp]) -> Memory:
    kept = np.sort(chosen)
    assert memory.scales is not None  # int8
    return replace(memory, numbers=memory.numbers[kept], scales=memory.scales[kept], phrases=index.take(kept))


def _pad(
    rows: Sequence[NDArray[Any]], first: int, last: int
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Rows between two values, padded with 0; where they are, and where they are without the two."""
    import torch

    width = max(len(row) for row in rows) + 2
    values = np.zeros((len(rows), width), np.int64)
    inside = np.zeros((len(rows), width), np.bool_)
    mask = np.zeros((len(rows), width), np.bool_)
    for at, row in enumerate(rows):
        values[at, 0], values[at, 1 : len(row) + 1], values[at, len(row) + 1] = first, row, last
        inside[at, 1 : len(row) + 1] = mask[at, : len(row) + 2] = True
        mask[at, : len(row) + 2] = True
    return torch.from_numpy(values), torch.from_numpy(mask), torch.from_numpy(inside)
