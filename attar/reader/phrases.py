"""PhraseReader: answers real questions with phrases of the text, by a transformer that reads without the questions.

A text: word pieces → windows of whole sentences → hidden states → phrase vectors, the likeliest kept → memory.
A question: word pieces → query, weights of its words → one score per phrase → answers, or "not in this text".
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, ShapeError
from attar.memory import Floats, Memory, PhraseIndex, within_budget
from attar.nn import LONGEST
from attar.progress import Progress, tell_nobody
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader
from attar.reader.phrase_questions import QuestionEncoder
from attar.reader.phrase_scores import Query, rank, rank_all, rank_phrases
from attar.reader.phrase_texts import Draft, Phrases, text_groups
from attar.reader.reader import Reader
from attar.reader.windows import Window, cut_windows, distinct_spans, pad, whole_words
from attar.results import Answer, Explanation
from attar.text import NameTable, sentence_spans

if TYPE_CHECKING:
    import torch

    from attar.nn import PhraseNetwork, QuickQuestions

# Windows per batch: the states of more do not stay in the caches, and are read more slowly.
_WINDOWS = 4
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000


# The score of a memory without phrases.
_NOTHING = -50.0
# Called for each window that is read: the number of its text, word pieces `[n]`, and hidden states `[n, d]`.
OnStates = Callable[[int, NDArray[np.int64], Floats], None]


class PhraseReader(Reader):
    """Reads texts into phrases, and answers questions from these."""

    # Signatures are made of the states after this many layers: later ones tell what answers, not what a text is about.
    signature_layers = 2
    form = "phrases"

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self.tokenizer, self.options = saved.tokenizer, saved.options
        self.fingerprint, self.about = saved.fingerprint, saved.about
        self.density, self.calibration = saved.density, saved.calibration
        self.saved, self._is_quick = saved, quick
        self._encoder = QuestionEncoder(saved, quick=quick)

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

    def prepare(self) -> None:
        """Load now what the first text or the first batch of questions would wait for: torch and the network."""
        self.network  # noqa: B018  # made on first access
        self.words  # noqa: B018

    def save(self, path: str | Path) -> str:
        """Write the reader to a folder and return its fingerprint."""
        saved = self.saved
        return save_phrase_reader(
            path,
            saved.network,
            saved.quick,
            saved.tokenizer.data,
            saved.about,
            density=saved.density,
            calibration=saved.calibration,
            distinct=saved.distinct,
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
        on_states: OnStates | None = None,
    ) -> list[Memory]:
        """The memories of texts, in order; `shared_names` has no effect, as phrases always merge."""
        if batch_size < 1:
            raise OptionError("batch_size", "an integer of at least 1", repr(batch_size))
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
        progress: Progress = tell_nobody,
        on_states: OnStates | None = None,
    ) -> Memory:
        """The memory of both texts, the second a new paragraph: the same as reading them at once.

        The last window of the first, `memory.phrases.tail`, is read again; `on_states` is called for it, too.
        """
        self.check_memory(memory)
        return self._read(text, memory, _WINDOWS, budget, progress, on_states)

    def token_states(self, texts: Sequence[str], on_states: OnStates) -> None:
        """Encode texts by as few layers as `on_states` needs, which is called for each window, as by `read_many`."""
        for at, text in enumerate(texts):
            windows = cut_windows(self.tokenizer, text)
            for first in range(0, len(windows), _WINDOWS):
                batch = [(at, window) for window in windows[first : first + _WINDOWS]]
                self._hidden(batch, on_states, only_states=True)

    def check_memory(self, memory: object) -> None:
        """Refuse other objects, and memories of other readers or of another form."""
        super().check_memory(memory)
        if isinstance(memory, Memory) and memory.form != self.form:
            raise OptionError("memory", f"one of form {self.form}", f"one of form {memory.form}")

    def _read(
        self,
        text: str,
        before: Memory | None,
        batch_size: int,
        budget: int | None,
        progress: Progress,
        on_states: OnStates | None = None,
        number: int = 0,
    ) -> Memory:
        draft = Draft.of(text, before, self._windows)
        (memory,) = self._made_of([draft], [number], batch_size, progress, on_states)
        return memory if budget is None else within_budget(memory, budget)

    def _finished(self, memory: Memory, budget: int | None) -> Memory:
        """The memory of a text from that of its phrases."""
        return memory if budget is None else within_budget(memory, budget)

    def _windows(self, text: str) -> list[Window]:
        return cut_windows(self.tokenizer, text)

    def _made_of(
        self,
        drafts: Sequence[Draft],
        numbers: Sequence[int],
        batch_size: int,
        progress: Progress,
        on_states: OnStates | None,
    ) -> list[Memory]:
        """The memories of phrases of texts with these numbers; all their windows are encoded together."""
        windows = [
            (number, window)
            for number, draft in zip(numbers, drafts, strict=True)
            for window in draft.windows
        ]
        # Windows of similar length share a batch: little of it is padding.
        order = sorted(range(len(windows)), key=lambda at: len(windows[at][1].ids))
        found: dict[int, tuple[Phrases, Floats]] = {}
        for first in range(0, len(order), batch_size):
            progress("reading", first, len(order))
            chosen = order[first : first + batch_size]
            found.update(zip(chosen, self._encode([windows[at] for at in chosen], on_states), strict=True))
        encoded = iter([found[at] for at in range(len(windows))])
        size, memories = self.options.size, []
        for draft in drafts:
            index, vectors = draft.index([next(encoded) for _ in draft.windows], size)
            memory = Memory(
                "phrases", vectors, None, draft.tokens, size, np.zeros(0, np.float32), NameTable(),
                "phrases", self.fingerprint, None, index,
            )  # fmt: skip
            memories.append(memory.astype("int8"))
        return memories

    def _hidden(
        self,
        windows: Sequence[tuple[int, Window]],
        on_states: OnStates | None,
        only_states: bool = False,
    ) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
        """The padded ids of windows, where they are, and their hidden states; `on_states` gets those it needs."""
        import torch

        from attar.reader.encoding import inference

        ids, mask, _ = pad([window.ids for _, window in windows], self.tokenizer.cls, self.tokenizer.sep)
        encoder, early = self.network.encoder, self.signature_layers
        # Several threads pay for several windows only: they wait for each other, long on a busy machine.
        with inference() if len(windows) == 1 else torch.inference_mode():
            hidden = encoder(ids, mask, layers=early)
            if on_states is not None:
                for (number, window), states in zip(windows, hidden, strict=True):
                    on_states(number, window.ids, states[1 : len(window.ids) + 1].float().numpy())
            if not only_states:
                hidden = encoder.continued(hidden, mask, slice(early, None))
        return ids, mask, hidden

    def _encode(
        self, windows: Sequence[tuple[int, Window]], on_states: OnStates | None = None
    ) -> Iterable[tuple[Phrases, Floats]]:
        """The phrases of each window, with the number of its text, in the order of the text, and their vectors."""
        import torch

        from attar.nn import valid_spans
        from attar.reader.encoding import inference

        ids, mask, hidden = self._hidden(windows, on_states)
        sentences, _, inside = pad([window.sentences for _, window in windows], 0, 0)
        with inference() if len(windows) == 1 else torch.inference_mode():
            texts = self.network.describe_texts(ids, hidden, mask)
            valid = valid_spans(sentences, inside) & whole_words(ids, self.tokenizer.continuing)
            priors = self.network.priors(texts, valid)
            if self.saved.distinct:
                priors = distinct_spans(ids, priors, self.tokenizer.articles, self.tokenizer.marks)
            priors = priors.flatten(1)
        for row, (_, window) in enumerate(windows):
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
        distinct = list(dict.fromkeys(asked))
        queries = dict(zip(distinct, self._questions(distinct), strict=True))
        return [
            self._rank(memory, queries[question], top, text)
            for memory, question, text in zip(about, asked, given, strict=True)
        ]

    def answer_all(
        self,
        memories: Sequence[Memory],
        question: str,
        *,
        biases: Sequence[float],
        top: int | None = None,
        texts: Sequence[str | None],
    ) -> tuple[list[list[Answer]], float, bool]:
        """The answers from each of several memories, the probability of no answer, and whether the reader refuses.

        Probabilities are over the phrases of all memories; a bias is added to the scores of each memory's phrases.
        """
        self._checked(memories, question, top)
        (query,) = self._questions([question])
        scores = [
            self._scores(memory, query) + np.float32(bias)
            for memory, bias in zip(memories, biases, strict=True)
        ]
        indexes = [_index(memory) for memory in memories]
        return rank_all(scores, query, indexes, top, texts, self.calibration)

    def match(self, memories: Sequence[Memory], question: str) -> list[float]:
        """How well each memory fits a question: the logarithm of the sum over its phrases; comparable between them."""
        self._checked(memories, question, None)
        (query,) = self._questions([question])
        return [
            float(np.logaddexp.reduce(np.append(self._scores(memory, query), _NOTHING)))
            for memory in memories
        ]

    def best_sentences(self, memory: Memory, question: str, count: int) -> list[tuple[int, int]]:
        """The characters of the sentences that fit a question best: by words, and by their likeliest phrase."""
        self.check_memory(memory)
        (query,) = self._questions([question])
        return query.best_sentences(_index(memory), self._scores(memory, query), count)

    def explain(self, text: str, question: str) -> Explanation:
        """The answers to a question on a text, and the weight of each word for it: that of its sentence."""
        memory = self.read(text)
        answers = self.answer(memory, question, text=text)
        (query,) = self._questions([question])
        index = _index(memory)
        overlap = query.overlap(index, self._encoder.neighbours)
        tokens, weights = [], []
        for at, (start, end) in enumerate(sentence_spans(text)):
            words = text[start:end].split()
            tokens += words
            weights += [float(overlap[at])] * len(words)
        return Explanation(tokens, weights, answers)

    def _questions(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order."""
        return self._encoder.encode(questions)

    def _rank(self, memory: Memory, query: Query, top: int | None, text: str | None) -> list[Answer]:
        return rank(self._scores(memory, query), query, _index(memory), top, text, self.calibration)

    def features(self, memory: Memory, questions: Sequence[str]) -> list[tuple[str, Floats] | None]:
        """The best phrase for each question, and what its calibration is computed from; None without a phrase."""
        found: list[tuple[str, Floats] | None] = []
        for query in self._questions(questions):
            index = _index(memory)
            best = rank_phrases(self._scores(memory, query), query.null, index, 1)
            none = not best.phrases
            found.append(None if none else (index.text_of(best.phrases[0]), best.features(query, index)))
        return found

    def _scores(self, memory: Memory, query: Query) -> Floats:
        """The score of each phrase of a memory."""
        index = _index(memory)
        scores = self._products(memory, index, query) + index.priors.astype(np.float32)
        if len(scores):
            scores += query.overlap(index, self._encoder.neighbours)[index.sentences]
            query.lower_repeated(scores, index)
        return scores

    def _products(self, memory: Memory, index: PhraseIndex, query: Query) -> Floats:
        """Phrase vector · query, for each phrase."""
        products: Floats = memory.to_float32() @ query.vector * self.options.size**-0.5
        return products


def _index(memory: Memory) -> PhraseIndex:
    assert memory.phrases is not None  # of a phrase reader
    return memory.phrases
