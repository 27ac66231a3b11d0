"""PhraseReader: answers real questions with phrases of the text, by a transformer that reads without the questions.

A text: word pieces → windows of whole sentences → hidden states → phrase vectors, the likeliest kept → memory.
A question: word pieces → query, weights of its words → one score per phrase → answers, or "not in this text".
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, ShapeError
from attar.memory.algebra import replace_tail
from attar.memory.budget import within_budget
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex
from attar.progress import Progress, ignore_progress
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader
from attar.reader.phrase_questions import QuestionEncoder
from attar.reader.phrase_scores import Query, ScoredPhrases, rank, rank_phrases
from attar.reader.phrase_texts import (
    Draft,
    Phrases,
    Window,
    cut_windows,
    distinct_spans,
    encode_batches,
    pad,
    text_groups,
    whole_words,
)
from attar.reader.reader import Reader
from attar.results import Answer, Explanation

if TYPE_CHECKING:
    import torch

    from attar.nn.phrases import PhraseNetwork, QuickQuestions

# Windows per batch on a CPU and on a GPU. A CPU reads one at a time as fast as four, and then a window has the same
# bytes whatever is read with it; a GPU would mostly wait for its next window.
_WINDOWS, _WINDOWS_ON_GPU = 1, 4
# Called for each window that is read: the number of its text, word pieces `[n]`, and hidden states `[n, d]`.
OnStates = Callable[[int, NDArray[np.int64], Floats], None]
# Of a window: its phrases, their vectors, and hidden states `[n, d]` for signatures.
_Encoded = tuple[Phrases, Floats, Floats]


class PhraseReader(Reader):
    """Reads texts into phrases, and answers questions from these."""

    # Signatures are made of the states after this many layers: later ones tell what answers, not what a text is about.
    signature_layers = 3
    form = "phrases"

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self.tokenizer, self.options = saved.tokenizer, saved.options
        self.fingerprint, self.about = saved.fingerprint, saved.about
        self.density, self.calibration = saved.density, saved.calibration
        self.saved, self._is_quick = saved, quick

    @cached_property
    def _encoder(self) -> QuestionEncoder:
        return QuestionEncoder(self.saved, quick=self._is_quick)

    @property
    def network(self) -> "PhraseNetwork":
        """The network that reads texts; made when it is first needed, with torch."""
        return self.saved.network

    @property
    def quick(self) -> "QuickQuestions | None":
        """The quick question encoder, if it is used."""
        return self.saved.quick if self._is_quick else None

    @property
    def words(self) -> Floats:
        """One unit vector per word piece, `[V, w]`, computed once."""
        return self._encoder.words

    def prepare(self, *, texts: bool = True) -> None:
        """Load now what the first question would wait for, and for `texts` torch and the network: 230 MB."""
        self._encoder.encode(["?"])
        if texts:
            self.network  # noqa: B018  # made on first access

    def to(self, device: "torch.device | str") -> "PhraseReader":
        """Move the network that reads texts to a device and return the reader; memories stay in numpy arrays."""
        self.network.to(device)
        return self

    def save(self, path: str | Path) -> str:
        """Write the reader to a folder and return its fingerprint."""
        saved = self.saved
        return save_phrase_reader(
            path, saved.network, saved.quick, saved.tokenizer.data, saved.about,
            density=saved.density, calibration=saved.calibration, distinct=saved.distinct,
        )  # fmt: skip

    def read(self, text: str, *, budget: int | None = None) -> Memory:
        """The memory of a text; `budget` caps the bytes of its record: what is least likely to be asked about goes."""
        return self.read_many([text], budget=budget)[0]

    def read_many(
        self,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        budget: int | None = None,
        progress: Progress = ignore_progress,
        on_states: OnStates | None = None,
    ) -> list[Memory]:
        """The memories of texts, in order.

        With a `batch_size`, windows are encoded together, and rounded in another way than when a memory is extended.
        """
        if batch_size is not None and batch_size < 1:
            raise OptionError.expected("batch_size", "an integer of at least 1", repr(batch_size))
        memories: list[Memory] = []
        for group in text_groups(texts):
            drafts = [Draft.of(text, None, self._windows) for _, text in group]
            made = self._made_of(drafts, [at for at, _ in group], batch_size, progress, on_states)
            memories += [self._finished(memory, budget) for memory in made]
        return memories

    def extend(
        self,
        memory: Memory,
        text: str,
        *,
        budget: int | None = None,
        progress: Progress = ignore_progress,
        on_states: OnStates | None = None,
    ) -> Memory:
        """The memory of both texts, the second a new paragraph: the same as reading them at once.

        The last window of the first, `memory.phrases.tail`, is read again; `on_states` is called for it, too.
        """
        self.check_memory(memory)
        draft = Draft.of(text, memory.phrases, self._windows)
        (new,) = self._made_of([draft], [0], None, progress, on_states)
        return self._within(self._continued(memory, new), budget)

    def token_states(self, texts: Sequence[str], on_states: OnStates) -> None:
        """Encode texts by as few layers as `on_states` needs, which is called for each window, as by `read_many`."""
        batches = [
            (at, windows[first : first + self._batch_size])
            for at, windows in enumerate(map(self._windows, texts))
            for first in range(0, len(windows), self._batch_size)
        ]

        def take(batch: tuple[int, list[Window]], states: list[Floats]) -> None:
            for window, own in zip(batch[1], states, strict=True):
                on_states(batch[0], window.ids, own)

        encode_batches(lambda batch: self._hidden(batch[1], only_states=True)[-1], batches, take)

    def query_states(self, text: str, on_states: OnStates) -> None:
        """`token_states` of one short text, without torch."""
        tokenizer = self.tokenizer
        layers = min(self.signature_layers, self.options.encoder.layers)
        for window in self._windows(text):
            ids = np.concatenate(([tokenizer.cls], window.ids, [tokenizer.sep]))[None]
            states = self._encoder.encoder.states(ids, np.ones_like(ids, np.bool_), layers)
            on_states(0, window.ids, states[1:-1])

    def check_memory(self, memory: object) -> None:
        """Refuse other objects, and memories of other readers or of another form."""
        super().check_memory(memory)
        if isinstance(memory, Memory) and memory.form != self.form:
            raise OptionError.expected("memory", f"one of form {self.form}", f"one of form {memory.form}")

    @property
    def _batch_size(self) -> int:
        return _WINDOWS if self.network.encoder.words.weight.device.type == "cpu" else _WINDOWS_ON_GPU

    def _finished(self, memory: Memory, budget: int | None) -> Memory:
        """The memory of a text from that of its phrases."""
        return self._within(memory, budget)

    def _continued(self, before: Memory, new: Memory) -> Memory:
        """The memory with the phrases of a draft in place of its last window."""
        tail = Draft.of(before.phrases.tail, None, self._windows)
        return replace_tail(before, new, tail.tokens)

    def _within(self, memory: Memory, budget: int | None) -> Memory:
        return memory if budget is None else within_budget(memory, budget)

    def _windows(self, text: str) -> list[Window]:
        return cut_windows(self.tokenizer, text)

    def _made_of(
        self,
        drafts: Sequence[Draft],
        numbers: Sequence[int],
        batch_size: int | None,
        progress: Progress,
        on_states: OnStates | None,
    ) -> list[Memory]:
        """The memories of phrases of texts with these numbers; windows of one text share batches."""
        size = batch_size or self._batch_size
        batches = [(at, batch) for at, draft in enumerate(drafts) for batch in draft.batches(size)]
        found: list[dict[int, tuple[Phrases, Floats]]] = [{} for _ in drafts]
        total = sum(len(draft.windows) for draft in drafts)

        def take(batch: tuple[int, list[int]], encoded: list[_Encoded]) -> None:
            at, chosen = batch
            progress("reading", sum(map(len, found)), total)
            for n, (phrases, vectors, states) in zip(chosen, encoded, strict=True):
                found[at][n] = phrases, vectors
                if on_states is not None:
                    on_states(numbers[at], drafts[at].windows[n].ids, states)

        encode_batches(
            lambda batch: self._encode([drafts[batch[0]].windows[n] for n in batch[1]]), batches, take
        )
        k, memories = self.options.size, []
        for draft, own in zip(drafts, found, strict=True):
            index, vectors = draft.index([own[n] for n in range(len(own))], k)
            memories.append(
                Memory.quantized(
                    vectors, form="phrases", phrases=index, tokens=draft.tokens, reader=self.fingerprint
                )
            )
        return memories

    def _hidden(
        self, windows: Sequence[Window], only_states: bool = False
    ) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[Floats]]":
        """The padded ids of windows, where they are, their hidden states, and those of each for signatures."""
        import torch

        ids, mask, _ = pad([window.ids for window in windows], self.tokenizer.cls, self.tokenizer.sep)
        encoder, early = self.network.encoder, self.signature_layers
        ids, mask = (each.to(encoder.words.weight.device) for each in (ids, mask))
        with torch.inference_mode():
            hidden = encoder(ids, mask, layers=early)
            rows = zip(windows, hidden.float().cpu().numpy(), strict=True)
            states: list[Floats] = [own[1 : len(window.ids) + 1] for window, own in rows]
            if not only_states:
                hidden = encoder.continued(hidden, mask, slice(early, None))
        return ids, mask, hidden, states

    def _encode(self, windows: Sequence[Window]) -> list[_Encoded]:
        """The phrases of each window in the order of the text, their vectors, and its states for signatures."""
        import torch

        from attar.nn.phrases import valid_spans

        ids, mask, hidden, states = self._hidden(windows)
        sentences, _, inside = pad([window.sentences for window in windows], 0, 0)
        with torch.inference_mode():
            texts = self.network.describe_texts(ids, hidden, mask)
            firsts, lasts = texts.firsts.cpu(), texts.lasts.cpu()
            valid = valid_spans(sentences, inside) & whole_words(ids.cpu(), self.tokenizer.continuing)
            priors = self.network.priors(texts, valid.to(ids.device)).cpu()
            if self.saved.distinct:
                priors = distinct_spans(ids.cpu(), priors, self.tokenizer)
            priors = priors.flatten(1)
        encoded: list[_Encoded] = []
        for row, window in enumerate(windows):
            phrases, first, last = window.likeliest(priors[row], self.density)
            vectors: Floats = (firsts[row, first] + lasts[row, last]).numpy()
            encoded.append((phrases, vectors, states[row]))
        return encoded

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
            raise ShapeError.expected("texts", f"one for each of {len(about)} memories", str(len(given)))
        distinct = list(dict.fromkeys(asked))
        queries = dict(zip(distinct, self._questions(distinct), strict=True))
        return [
            self._rank(memory, queries[question], top, text)
            for memory, question, text in zip(about, asked, given, strict=True)
        ]

    def scored(self, memories: Sequence[Memory], question: str, biases: Sequence[float]) -> ScoredPhrases:
        """The scores of the phrases of several memories; a bias is added to those of each memory."""
        self._checked(memories, question, None)
        (query,) = self._questions([question])
        scores = [
            self._scores(memory, query) + np.float32(bias)
            for memory, bias in zip(memories, biases, strict=True)
        ]
        return ScoredPhrases(query, scores, [memory.phrases for memory in memories], self.calibration)

    def match(self, memories: Sequence[Memory], question: str) -> list[float]:
        """How well each memory fits a question, comparable between them: the logarithm of the sum over its phrases.

        "No answer" is part of the sum, so that memories without an answer fit alike: of a query that phrases do not
        answer, they say nothing about the order.
        """
        self._checked(memories, question, None)
        (query,) = self._questions([question])
        return [
            float(np.logaddexp.reduce(np.append(self._scores(memory, query), np.float32(query.null))))
            for memory in memories
        ]

    def best_sentences(self, memory: Memory, question: str, count: int) -> list[tuple[int, int]]:
        """The characters of the sentences that fit a question best: by words, and by their likeliest phrase."""
        self.check_memory(memory)
        (query,) = self._questions([question])
        return query.best_sentences(memory.phrases, self._scores(memory, query), count)

    def explain(self, text: str, question: str) -> Explanation:
        """The answers to a question on a text, and the weight of each word for it: that of its sentence."""
        memory = self.read(text)
        answers = self.answer(memory, question, text=text)
        (query,) = self._questions([question])
        words = query.word_weights(text, memory.phrases, self._scores(memory, query))
        return Explanation(*words, answers)

    def _questions(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order."""
        return self._encoder.encode(questions)

    def _rank(self, memory: Memory, query: Query, top: int | None, text: str | None) -> list[Answer]:
        return rank(self._scores(memory, query), query, memory.phrases, top, text, self.calibration)

    def features(self, memory: Memory, questions: Sequence[str]) -> list[tuple[str, Floats] | None]:
        """The best phrase for each question, and what its calibration is computed from; None without a phrase."""
        found: list[tuple[str, Floats] | None] = []
        for query in self._questions(questions):
            index = memory.phrases
            best = rank_phrases(self._scores(memory, query), query.null, index, 1)
            none = not best.phrases
            found.append(None if none else (index.text_of(best.phrases[0]), best.features(query, index)))
        return found

    def _scores(self, memory: Memory, query: Query) -> Floats:
        """The score of each phrase of a memory."""
        index = memory.phrases
        scores = self._products(memory, index, query) + index.priors.astype(np.float32)
        if len(scores):
            scores += query.overlap(index, self._encoder.neighbours)[index.sentences]
            query.lower_repeated(scores, index)
        return scores

    def _products(self, memory: Memory, index: PhraseIndex, query: Query) -> Floats:
        """Phrase vector · query, for each phrase."""
        products: Floats = memory.dequantized @ query.vector * self.options.size**-0.5
        return products
