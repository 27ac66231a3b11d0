"""One memory of several documents."""

from collections.abc import Sequence
from functools import reduce
from operator import add

from attar.errors import OptionError, quoted
from attar.memory import Memory


def merged(names: Sequence[str], memories: Sequence[Memory]) -> Memory:
    """The sum of documents' memories, in their order; what is written with ids needs one table of names."""
    for at, memory in enumerate(memories[1:], 1):
        first = memories[0]
        if memory.form != "names" and not all(memory.names.agrees_with(each.names) for each in memories[:at]):
            expected = "documents read under one table of names"
            came = f"{quoted(names[0])} and {quoted(names[at])}, whose {first.mechanism} memories were not"
            remedy = "add them again, together: attar add STORE FILE… --together --replace"
            raise OptionError("merge", expected, came, remedy)
    return reduce(add, memories)


def check_parts(names: Sequence[str]) -> None:
    """Refuse to merge nothing, or one document with itself."""
    if len(names) < 2:
        raise OptionError("merge", "two documents or more", str(len(names)))
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise OptionError("merge", "documents that differ", f"{quoted(twice)} twice", "name it once")
