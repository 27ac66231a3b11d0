"""What a reader refuses, each in one line: no text, questions without a memory, a network that cannot answer."""

from collections.abc import Sequence

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory import Memory
from attar.nn import Network


def in_pairs(
    memories: Memory | Sequence[Memory], questions: str | Sequence[str]
) -> tuple[list[Memory], list[str]]:
    """Memories and questions, one for each other."""
    if isinstance(questions, str):
        about = [memories] if isinstance(memories, Memory) else list(memories)
        return about, [questions] * len(about)
    asked = list(questions)
    about = [memories] * len(asked) if isinstance(memories, Memory) else list(memories)
    if len(about) != len(asked):
        raise ShapeError("questions", f"one for each of {len(about)} memories", str(len(asked)))
    return about, asked


def check_text(what: str, text: object) -> None:
    """Refuse what is no text."""
    if not isinstance(text, str):
        raise DtypeError(what, "a string", type(text).__name__)


def check_top(top: object) -> None:
    """Refuse a number of answers that is none; None is for all of them."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        raise OptionError("top", "a whole number from 1 up", repr(top))


def check_own(memory: object, fingerprint: str) -> None:
    """Refuse what is no memory of the reader with this fingerprint."""
    if not isinstance(memory, Memory):
        raise DtypeError("memory", "an attar.Memory", type(memory).__name__, "read the text first")
    if memory.reader != fingerprint:
        raise OptionError(
            "memory",
            f"one of this reader, {fingerprint[:12]}",
            f"one of reader {memory.reader[:12]}",
            "read the text with this reader",
        )


def answers_alone(network: Network) -> bool:
    """Whether a memory is all that an answer needs: softmax with the copy head also asks for the text's names."""
    return (network.options.mechanism, network.options.head) != ("softmax", "copy")


def check_answerable(network: Network) -> None:
    """Refuse to read where a memory alone would not answer."""
    if not answers_alone(network):
        raise OptionError(
            "reader",
            "one whose memories answer by themselves",
            "softmax with the copy head, which needs the text's names at every token",
            "train it with head='paper', or with mechanism='named'",
        )
