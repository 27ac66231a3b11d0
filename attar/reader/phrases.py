"""PhraseReader: answers real questions with phrases of the text, by a transformer that reads without the questions.

A text: word pieces → windows of whole sentences → hidden states → phrase vectors, the likeliest kept → memory.
A question: word pieces → query, weights of its words → one score per phrase → answers, or "not in this text".
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory import JOINT, Floats, Memory, PhraseIndex, within_budget
from attar.nn import LONGEST, following, valid_spans
from attar.progress import Progress, tell_nobody
from attar.reader.encoding import inference
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader
from attar.reader.phrase_scores import Query, content_words, rank, rank_all, rank_phrases
from attar.reader.reader import Reader
from attar.reader.windows import Window, cut_windows, pad
from attar.results import Answer, Explanation
from attar.text import NameTable, sentence_spans

# Windows per batch, and questions: a question has about 16 pieces.
_WINDOWS, _QUESTIONS = 8, 64
# The longest question, in pieces; the rest of a longer one is not read.
_LONGEST_QUESTION = 256
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000


# The score of a memory without phrases.
_NOTHING = -50.0
# Called for each window that is read: the number of its text, word pieces `[n]`, and hidden states `[n, d]`.
OnStates = Callable[[int, NDArray[np.int64], Floats], None]


class PhraseReader(Reader):
    """Reads texts into phrases, and answers questions from these."""

    # Signatures are made of the states after so many layers: later ones tell what answers, not what a text is about.
    signature_layers = 2
    form = "phrases"

    def __init__(self, saved: SavedPhrases, *, quick: bool = True) -> None:
        self.network, self.quick, self.tokenizer = (
            saved.network,
            saved.quick if quick else None,
            saved.tokenizer,
        )
        self.fingerprint, self.about = saved.fingerprint, saved.about
        self.density, self.calibration = saved.density, saved.calibration
        self.saved = saved

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
        return [
            self._read(text, None, batch_size, budget, progress, on_states, at)
            for at, text in enumerate(texts)
        ]

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
                self._hidden(windows[first : first + _WINDOWS], at, on_states, only_states=True)

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
        if not isinstance(text, str):
            raise DtypeError("text", "a string", type(text).__name__)
        earlier, vectors = None, [np.zeros((0, self.network.options.size), np.float32)]
        tokens = 0
        if before is not None and before.phrases is not None:
            # The last window is read again: what follows may belong to it.
            earlier = before.phrases.before_tail()
            vectors = [before.to_float32()[: before.phrases.tail_phrases]]
            tail = before.phrases.tail
            tokens = before.tokens - sum(len(window.ids) for window in cut_windows(self.tokenizer, tail))
            text = tail + JOINT + text if before.phrases.characters else text
        windows, sentences = cut_windows(self.tokenizer, text), list(sentence_spans(text))
        phrases: list[tuple[int, int, int, float]] = []
        last, sentence = (0, 0, 0), -1
        for first in range(0, len(windows), batch_size):
            progress("reading", first, len(windows))
            for window, (found, own) in zip(
                windows[first : first + batch_size],
                self._encode(windows[first : first + batch_size], number, on_states),
                strict=True,
            ):
                # The tail begins with a sentence, so that it is cut into the same sentences again.
                if window.sentences[0] > sentence:
                    sentence = int(window.sentences[0])
                    last = (sentences[sentence][0], len(phrases), sentence)
                sentence = int(window.sentences[-1])
                phrases += found
                vectors.append(own)
        words: list[list[int]] = [[] for _ in sentences]
        for window in windows:
            for sentence in np.unique(window.sentences):
                words[sentence] += np.unique(window.ids[window.sentences == sentence]).tolist()
        index = PhraseIndex.of(text, phrases, sentences, words, tail=last)
        if earlier is not None:
            index = earlier.add(index, joint=0)
        numbers = np.concatenate(vectors)
        tokens += sum(len(window.ids) for window in windows)
        memory = Memory(
            "phrases", numbers, None, tokens, self.network.options.size, np.zeros(0, np.float32), NameTable(),
            "phrases", self.fingerprint, None, index,
        ).astype("int8")  # fmt: skip
        return memory if budget is None else within_budget(memory, budget)

    def _hidden(
        self,
        windows: Sequence[Window],
        number: int,
        on_states: OnStates | None,
        only_states: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The padded ids of windows, where they are, and their hidden states; `on_states` gets those it needs."""
        ids, mask, _ = pad([window.ids for window in windows], self.tokenizer.cls, self.tokenizer.sep)
        encoder, early = self.network.encoder, self.signature_layers
        # Several threads pay for several windows only: they wait for each other, long on a busy machine.
        with inference() if len(windows) == 1 else torch.inference_mode():
            hidden = encoder(ids, mask, layers=early)
            if on_states is not None:
                for window, states in zip(windows, hidden, strict=True):
                    on_states(number, window.ids, states[1 : len(window.ids) + 1].float().numpy())
            if not only_states:
                hidden = encoder.continued(hidden, mask, slice(early, None))
        return ids, mask, hidden

    def _encode(
        self, windows: Sequence[Window], number: int, on_states: OnStates | None
    ) -> Iterable[tuple[list[tuple[int, int, int, float]], Floats]]:
        """The phrases of each window, in the order of the text, and their vectors."""
        ids, mask, hidden = self._hidden(windows, number, on_states)
        sentences, _, inside = pad([window.sentences for window in windows], 0, 0)
        with inference() if len(windows) == 1 else torch.inference_mode():
            texts = self.network.describe_texts(ids, hidden, mask)
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

    def _whole_words(self, ids: torch.Tensor) -> torch.Tensor:
        """Where a span neither starts nor ends inside a word, `[B, n, w]`."""
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
        overlap = query.overlap(index, self.network.neighbours.detach().numpy())
        tokens, weights = [], []
        for at, (start, end) in enumerate(sentence_spans(text)):
            words = text[start:end].split()
            tokens += words
            weights += [float(overlap[at])] * len(words)
        return Explanation(tokens, weights, answers)

    def _questions(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order."""
        for question in questions:
            if not isinstance(question, str):
                raise DtypeError("question", "a string", type(question).__name__)
        ids = self.tokenizer.read_questions([question.replace("___", " what ") for question in questions])
        ids = [
            each if len(each) <= _LONGEST_QUESTION else np.append(each[: _LONGEST_QUESTION - 1], each[-1])
            for each in ids
        ]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        queries: dict[int, Query] = {}
        for first in range(0, len(order), _QUESTIONS):
            chosen = order[first : first + _QUESTIONS]
            width = max(len(ids[at]) for at in chosen)
            padded = np.zeros((len(chosen), width), np.int64)
            mask = np.zeros((len(chosen), width), np.bool_)
            for row, at in enumerate(chosen):
                padded[row, : len(ids[at])] = ids[at]
                mask[row, : len(ids[at])] = True
            with inference():
                encoded = self.network.encode_questions(
                    torch.from_numpy(padded), torch.from_numpy(mask), self.quick
                )
            vectors, nulls, weights, words = (part.float().numpy() for part in encoded)
            for row, at in enumerate(chosen):
                length = len(ids[at])
                own = slice(1, length)
                null = float(nulls[row])
                asked = content_words(questions[at])
                queries[at] = Query(
                    vectors[row], null, weights[row, own], words[row, own], self.words, asked,
                    ids[at][self.tokenizer.numeric[ids[at]]], questions[at],
                )  # fmt: skip
        return [queries[at] for at in range(len(ids))]

    @property
    def words(self) -> Floats:
        """One unit vector per word piece, `[V, w]`, computed once."""
        if "_words" not in self.__dict__:
            with torch.inference_mode():
                table = self.network.word(self.network.encoder.words.weight)
                self._words: Floats = torch.nn.functional.normalize(table, dim=-1).numpy()
        return self._words

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
            scores += query.overlap(index, self.network.neighbours.detach().numpy())[index.sentences]
            query.lower_repeated(scores, index)
        return scores

    def _products(self, memory: Memory, index: PhraseIndex, query: Query) -> Floats:
        """Phrase vector · query, for each phrase."""
        products: Floats = memory.to_float32() @ query.vector * self.network.options.size**-0.5
        return products


def _index(memory: Memory) -> PhraseIndex:
    assert memory.phrases is not None  # of a phrase reader
    return memory.phrases
