"""Reader: texts to memories, memories and questions to answers."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attar.errors import DtypeError, FormatError, OptionError, ShapeError
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.folders import read_file, reader_folder
from attar.results import Answer, Explanation

if TYPE_CHECKING:
    import torch


class Reader(ABC):
    """Reads texts, and answers questions from memories of them.

    `Reader.load()` gives the default. `Reader.load("fixed")` makes memories of at most 16 kB, however long the text.
    """

    fingerprint: str
    about: dict[str, Any]
    # Where it was loaded from: statistics for search lie beside its files.
    folder: Path | None = None

    @classmethod
    def load(cls, path: str | Path | None = None) -> "Reader":
        """Load the reader in a folder, or one of the package: "answers" (the default) or "fixed"."""
        folder = reader_folder(path)
        config = read_file(folder / "config.json")
        kind = _kind(folder, config)
        if kind == "fixed size":
            from attar.reader.fixed_size import load_fixed_size

            return load_fixed_size(folder, config)
        from attar.reader.phrase_files import load_phrase_reader
        from attar.reader.phrases import PhraseReader

        reader = PhraseReader(load_phrase_reader(folder, config))
        reader.folder = folder
        return reader

    @abstractmethod
    def prepare(self, *, texts: bool = True) -> None:
        """Load now what the first question would wait for, and the first text if `texts` will be read."""

    @abstractmethod
    def to(self, device: "torch.device | str") -> "Reader":
        """Move the network that reads texts to a device and return the reader."""

    @abstractmethod
    def save(self, path: str | Path) -> str:
        """Write the reader to a folder and return its fingerprint."""

    @abstractmethod
    def read(self, text: str) -> Memory:
        """The memory of a text."""

    @abstractmethod
    def read_many(
        self,
        texts: Sequence[str],
        *,
        batch_size: int | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Memory]:
        """The memories of texts, in order."""

    @abstractmethod
    def extend(self, memory: Memory, text: str, *, progress: Progress = ignore_progress) -> Memory:
        """The memory extended by a text: the same as reading both at once, if the first ends with a sentence."""

    def answer(
        self, memory: Memory, question: str, *, top: int | None = None, text: str | None = None
    ) -> list[Answer]:
        """The answers, most likely first, at most `top`; quotes are taken from the text, if given."""
        return self.answer_many([memory], [question], top=top, texts=[text])[0]

    @abstractmethod
    def answer_many(
        self,
        memories: Memory | Sequence[Memory],
        questions: str | Sequence[str],
        *,
        top: int | None = None,
        texts: Sequence[str | None] | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from its memory; a single memory or question is used for all."""

    @abstractmethod
    def explain(self, text: str, question: str) -> Explanation:
        """The answers to a question on a text, and the weight of each token of the text."""

    def check_memory(self, memory: object) -> None:
        """Refuse other objects, and memories of other readers."""
        if not isinstance(memory, Memory):
            raise DtypeError.expected(
                "memory", "an attar.Memory", type(memory).__name__, "read the text first"
            )
        if memory.reader != self.fingerprint:
            expected, came = (f"one of reader {name[:12]}" for name in (self.fingerprint, memory.reader))
            raise OptionError.expected("memory", expected, came, "read the text with this reader")

    def _checked(
        self, memories: Memory | Sequence[Memory], questions: str | Sequence[str], top: int | None
    ) -> tuple[list[Memory], list[str]]:
        """Memories and questions, of equal number, a single one repeated."""
        if isinstance(questions, str):
            about = [memories] if isinstance(memories, Memory) else list(memories)
            asked = [questions] * len(about)
        else:
            asked = list(questions)
            about = [memories] * len(asked) if isinstance(memories, Memory) else list(memories)
        if len(about) != len(asked):
            raise ShapeError.expected("questions", f"one for each of {len(about)} memories", str(len(asked)))
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            raise OptionError.expected("top", "an integer of at least 1", repr(top))
        for memory in {id(memory): memory for memory in about}.values():
            self.check_memory(memory)
        return about, asked


@contextmanager
def inference() -> Iterator[int]:
    """Compute without gradients and with one thread; yields how many threads torch had.

    Threads that share the products of one window wait for each other, and could round them in another way.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with inference():
    ...     torch.get_num_threads(), torch.is_inference_mode_enabled()
    (1, True)
    >>> torch.get_num_threads() == before
    True
    """
    import torch

    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield before
    finally:
        if before != 1:
            torch.set_num_threads(before)


def _kind(folder: Path, config: bytes) -> str:
    try:
        return str(json.loads(config).get("kind"))
    except (ValueError, AttributeError, RecursionError) as fault:
        raise FormatError.expected(
            str(folder / "config.json"), "a reader's config", f"another file ({fault})"
        ) from fault
