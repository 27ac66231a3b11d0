"""Reader: reads texts without their questions, and answers real questions with phrases of the text.

A text: word pieces → windows of whole sentences → hidden states → phrase vectors, the likeliest kept → memory.
A question: word pieces → query, weights of its words → one score per phrase → the best sentences → second look →
answers, or "not in this text".
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory.algebra import replace_tail, within_budget
from attar.memory.memory import Floats, Form, Memory
from attar.options import LOOK, MOST_LOOK
from attar.progress import Progress, check_stopped, ignore_progress, one_thread
from attar.reader.answers import (
    ScoredPhrases,
    chosen_first,
    look_features,
    rank,
    rank_looked,
    rank_phrases,
)
from attar.reader.encoding import EncodedBatch, TextEncoder, device_errors, find_device, window_states
from attar.reader.fast_spans import FastSpans
from attar.reader.folders import Calibration, FixedSizeConfig, ReaderFolder
from attar.reader.parts import ReaderParts, load_parts
from attar.reader.questions import Query, QuestionEncoder, ScoredMemory
from attar.reader.second_look import Look, SecondLook
from attar.reader.windows import FoundPhrases, WindowedText, memories_of, text_groups
from attar.results import Answer, check_top

if TYPE_CHECKING:
    import torch

    from attar.reader.fast_reading import FastReading

# Called for each window that is read: the number of its text, word pieces `[n]`, and hidden states `[n, d]`.
OnStates = Callable[[int, NDArray[np.int64], Floats], None]
# Characters of the texts that are read together: short ones fill batches, few long ones are in memory at once.
_GROUP = 2**20
# Below this many characters in all, starting processes for a GPU takes longer than what they save.
_WORTH_IT = 2**20


class Features(NamedTuple):
    """The best phrase for a question, its sentence, and what its calibration is computed from."""

    phrase: str
    sentence: str
    values: Floats


class Reader:
    """Reads texts into memories, and answers questions from these.

    `Reader.load()` gives the default. `Reader.load("fixed")` makes memories of at most 16 kB, however long the text.
    """

    # Signatures are made of the states after this many layers: later ones tell what answers, not what a text is about.
    signature_layers = 3
    form: Form = "phrases"
    # Whether questions are encoded by the quick encoder, if there is one.
    quick = True

    def __init__(self, parts: ReaderParts, *, folder: Path | None = None) -> None:
        """A reader of its parts. `folder` is where it was loaded from: statistics for search lie beside its files."""
        self.parts, self.folder = parts, folder
        self.tokenizer, self.options, self.about = parts.tokenizer, parts.options, parts.config.about
        self.fingerprint = parts.config.fingerprint
        self.calibration = parts.config.network.calibration

    @classmethod
    def load(cls, path: str | Path | None = None) -> "Reader":
        """Load the reader in a folder, or one of the package: "answers" (the default) or "fixed"."""
        return cls.of(ReaderFolder.open(path))

    @classmethod
    def of(cls, folder: ReaderFolder) -> "Reader":
        """Load the reader of a folder whose config is read."""
        parts = load_parts(folder)
        if isinstance(folder.config, FixedSizeConfig):
            from attar.reader.fixed_size import FixedSizeReader

            return FixedSizeReader(parts, folder=folder.path)
        return Reader(parts, folder=folder.path)

    @cached_property
    def questions(self) -> QuestionEncoder:
        """The question encoder, without torch."""
        return QuestionEncoder(self.parts, quick=self.quick)

    @cached_property
    def second_look(self) -> SecondLook | None:
        """The network that reads the best sentences again, if the reader has one; without torch."""
        weights = self.parts.look_weights()
        if weights is None:
            return None

        words = partial(self.parts.weight, "network.encoder.words.weight")
        heads, separator = self.options.encoder.heads, self.tokenizer.sep
        return SecondLook(FastSpans(weights, words, heads=heads, separator=separator), self.tokenizer)

    def look_of(self, look: int | None) -> int:
        """How many sentences are read again: as asked, or by default three, if the reader has a second look."""
        can = self.parts.config.look is not None
        if look is None:
            return LOOK if can else 0
        if isinstance(look, bool) or not isinstance(look, int) or not 0 <= look <= MOST_LOOK:
            raise OptionError.expected("look", f"an integer from 0 to {MOST_LOOK}", repr(look))
        if look and not can:
            raise OptionError("the reader has no second look", "omit look, or use look=0")
        return look

    @property
    def device(self) -> "torch.device":
        """Where texts are read."""
        return self._texts.device

    @cached_property
    def _texts(self) -> TextEncoder:
        return TextEncoder(self.parts, self.signature_layers)

    def prepare(self, *, texts: bool = True) -> None:
        """Load now what the first question would wait for, and for `texts` torch and the network: 230 MB."""
        self.questions.encode(["?"])
        if texts:
            self.parts.network()

    def to(self, device: "torch.device | str") -> "Reader":
        """Move the network that reads texts to a device and return the reader; memories stay in numpy arrays.

        On a GPU its layers compute in bfloat16.
        """
        chosen = find_device(device)
        network = self.parts.network()
        before = network.encoder.words.weight.device
        if before.type == chosen.type and chosen.index in (None, before.index):
            return self
        network.to(chosen)
        for made_for_another in ("_texts", "_fast_reading"):
            self.__dict__.pop(made_for_another, None)
        return self

    def save(self, path: str | Path) -> str:
        """Write the reader to a folder and return its fingerprint."""
        return self.parts.save(path)

    def read(self, text: str, *, budget: int | None = None) -> Memory:
        """The memory of a text; `budget` caps the bytes of its record: what is least likely to be asked about goes."""
        return self.read_many([text], budget=budget)[0]

    def read_many(
        self,
        texts: Sequence[str],
        *,
        budget: int | None = None,
        progress: Progress = ignore_progress,
        on_states: OnStates | None = None,
    ) -> list[Memory]:
        """The memories of texts, in order."""
        _check_texts(texts)
        if self._reads_fast(texts, on_states):
            with device_errors(self.device):
                read = self._fast_reading.read(texts, progress, getattr(on_states, "add_batch", None))
            return [self._finished(memory, budget) for memory in read]
        memories: list[Memory] = []
        for first, group in text_groups(texts, _GROUP):
            windowed = [WindowedText.of(text, self.tokenizer) for text in group]
            made = self._read(windowed, first, progress, on_states)
            memories += [self._finished(memory, budget) for memory in made]
        return memories

    def _reads_fast(self, texts: Sequence[str], on_states: OnStates | None) -> bool:
        """Whether texts are worth other processes, on a device that would wait for them otherwise."""
        if self._texts.device.type == "cpu" or not (on_states is None or hasattr(on_states, "add_batch")):
            return False
        return sum(map(len, texts)) >= _WORTH_IT

    @cached_property
    def _fast_reading(self) -> "FastReading":
        from attar.reader.fast_reading import FastReading  # for a GPU alone: no question waits for it

        return FastReading(self._texts, self.tokenizer, self.options.size, self.fingerprint)

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

        The last window of the first, `memory.phrases.tail`, is read again, and `on_states` called for it again.
        """
        self.check_memory(memory)
        _check_texts([text])
        windowed = WindowedText.of(text, self.tokenizer, memory.phrases)
        (new,) = self._read([windowed], 0, progress, on_states)
        return self._within(self._continued(memory, new), budget)

    def _read(
        self, texts: Sequence[WindowedText], first: int, progress: Progress, on_states: OnStates | None
    ) -> list[Memory]:
        """The memories of phrases of texts, whose numbers begin with `first`."""
        windows = [(first + at, window) for at, text in enumerate(texts) for window in text.windows]
        found: list[FoundPhrases] = [FoundPhrases.none(0)] * len(windows)
        done = 0

        def take(batch: NDArray[np.int64], encoded: EncodedBatch) -> None:
            nonlocal done
            progress("reading", done, len(windows))
            done += len(batch)
            for at, phrases in zip(batch, encoded.phrases(), strict=True):
                found[at] = phrases
            if on_states is not None:
                for at, states in zip(batch, window_states(encoded.batch, encoded.states), strict=True):
                    on_states(windows[at][0], windows[at][1].ids, states)

        with device_errors(self.device):
            self._texts.encode_all([window for _, window in windows], self._texts.encode, take)
        return memories_of(texts, found, self.options.size, self.fingerprint)

    def _finished(self, memory: Memory, budget: int | None) -> Memory:
        """The memory that is kept, made from the memory of phrases."""
        return self._within(memory, budget)

    def _continued(self, before: Memory, new: Memory) -> Memory:
        """The memory with the phrases of a text in place of its last window."""
        return replace_tail(before, new, WindowedText.of(before.phrases.tail, self.tokenizer).tokens)

    def _within(self, memory: Memory, budget: int | None) -> Memory:
        return within_budget(memory, budget) if budget else memory

    def answer(
        self,
        memory: Memory,
        question: str,
        *,
        top: int | None = None,
        text: str | None = None,
        look: int | None = None,
    ) -> list[Answer]:
        """The answers, most likely first, at most `top`; quotes are taken from the text, if given.

        With a text, the best `look` sentences are read again with the question: 0 to 5, by default 3.
        """
        return self.answer_many([memory], [question], top=top, texts=[text], look=look)[0]

    def answer_many(
        self,
        memories: Sequence[Memory],
        questions: Sequence[str],
        *,
        top: int | None = None,
        texts: Sequence[str | None] | None = None,
        names: Sequence[str] | None = None,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from its memory, with quotes and a second look from its text.

        The names of documents say what sentences are about, as titles do.
        """
        texts = [None] * len(memories) if texts is None else texts
        names = [""] * len(memories) if names is None else names
        for what, count in (("questions", len(questions)), ("texts", len(texts)), ("names", len(names))):
            if count != len(memories):
                raise ShapeError.expected(what, f"one for each of {len(memories)} memories", str(count))
        check_top(top)
        look = self.look_of(look)
        self._check_memories(memories)
        queries, documents = self.questions.encode(questions), []
        for memory, query in zip(memories, queries, strict=True):
            check_stopped()
            documents.append(self._scored(memory, query))
        return self.ranked_answers(queries, documents, top=top, texts=texts, names=names, look=look)

    def ranked_answers(
        self,
        queries: Sequence[Query],
        documents: Sequence[ScoredMemory],
        *,
        top: int | None,
        texts: Sequence[str | None],
        names: Sequence[str],
        look: int,
    ) -> list[list[Answer]]:
        """The answers to each query from the scores of its document's phrases."""
        scored = [
            ScoredPhrases(query, [document]) for query, document in zip(queries, documents, strict=True)
        ]
        looks = self._look_again(scored, texts, names, look)
        return [
            self._ranked(phrases, seen, top, text)
            for phrases, seen, text in zip(scored, looks, texts, strict=True)
        ]

    def _look_again(
        self,
        scored: Sequence[ScoredPhrases],
        texts: Sequence[str | None],
        names: Sequence[str],
        look: int,
    ) -> list[Look | None]:
        """What a second look finds in the best sentences of one document per question; None without any."""
        network = self.second_look if look else None
        if network is None:
            return [None] * len(scored)
        found = [
            phrases.found_sentences(phrases.total, look, [text], [name])[0]
            for phrases, text, name in zip(scored, texts, names, strict=True)
        ]
        return network.read([phrases.query.question for phrases in scored], found)

    def _ranked(
        self, phrases: ScoredPhrases, look: Look | None, top: int | None, text: str | None
    ) -> list[Answer]:
        """The answers from one document."""
        query, (document,) = phrases.query, phrases.documents
        if look is None:
            return rank(document.scores, query, document.index, top, text, self.calibration)
        ranked = rank_phrases(document.scores, query.null, document.index, top, phrases.total)
        answers = ranked.answers(document.index, text, top)
        return rank_looked(query.question, look, answers, self.look_calibration, top)

    @property
    def look_calibration(self) -> Calibration | None:
        look = self.parts.config.look
        return None if look is None else look.calibration

    def features(
        self, memory: Memory, questions: Sequence[str], text: str, look: int = 0, name: str = ""
    ) -> list[Features | None]:
        """What the calibration of each question's best answer is computed from; None without an answer."""
        index = memory.phrases
        scored = [
            ScoredPhrases(query, [self._scored(memory, query)]) for query in self.questions.encode(questions)
        ]
        features: list[Features | None] = []
        looks = self._look_again(scored, [text] * len(scored), [name] * len(scored), look)
        for phrases, seen in zip(scored, looks, strict=True):
            query, of_answer = phrases.query, None
            ranked = rank_phrases(phrases.documents[0].scores, query.null, index, 1)
            if seen is not None:
                best = chosen_first(seen)[0]
                of_answer = Features(best.text, best.sentence.text, look_features(query.question, seen, best))
            elif not look and ranked.phrases:
                phrase = ranked.phrases[0].phrase
                sentence = text[slice(*index.sentence_of(phrase))]
                of_answer = Features(index.text_of(phrase), sentence, ranked.features(query, index))
            features.append(of_answer)
        return features

    def scored(self, memories: Sequence[Memory], question: str) -> ScoredPhrases:
        """The scores of the phrases of several memories."""
        self._check_memories(memories)
        (query,) = self.questions.encode([question])
        return ScoredPhrases(query, [self._scored(memory, query) for memory in memories])

    def token_states(self, texts: Sequence[str], on_states: OnStates) -> None:
        """Encode texts by as few layers as `on_states` needs, which is called for each window, as by `read_many`."""
        _check_texts(texts)
        windows = [
            (number, window)
            for number, text in enumerate(texts)
            for window in WindowedText.of(text, self.tokenizer).windows
        ]

        def take(batch: NDArray[np.int64], states: list[Floats]) -> None:
            for at, of_window in zip(batch, states, strict=True):
                on_states(windows[at][0], windows[at][1].ids, of_window)

        self._texts.encode_all([window for _, window in windows], self._texts.states, take)

    def query_states(self, ids: NDArray[np.int64]) -> Floats:
        """The states `[n, d]` of a window's pieces that `token_states` gives, without torch."""
        return self.questions.states(ids, min(self.signature_layers, self.options.encoder.layers))

    def check_memory(self, memory: object) -> None:
        """Refuse other objects, and memories of other readers or of another form."""
        if not isinstance(memory, Memory):
            raise DtypeError.expected(
                "memory", "an attar.Memory", type(memory).__name__, "read the text first"
            )
        if memory.reader != self.fingerprint:
            sentence = f"the memory is one of reader {memory.reader[:12]}, not of {self.fingerprint[:12]}"
            raise OptionError(sentence, "read the text with this reader")
        if memory.form != self.form:
            raise OptionError.expected("memory", f"one of form {self.form}", f"one of form {memory.form}")

    def _check_memories(self, memories: Sequence[Memory]) -> None:
        for memory in {id(memory): memory for memory in memories}.values():
            self.check_memory(memory)

    def _scored(self, memory: Memory, query: Query) -> ScoredMemory:
        with one_thread():
            return query.scored(self._products(memory, query), memory.phrases, self.questions.neighbours)

    def _products(self, memory: Memory, query: Query) -> Floats:
        """Phrase vector · query, for each phrase."""
        products: Floats = memory.dequantized @ query.vector * self.options.size**-0.5
        return products


def _check_texts(texts: Sequence[object]) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise DtypeError.expected("text", "a string", type(text).__name__)
