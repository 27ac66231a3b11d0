"""One shard of a library: the backend of its store, and how calls reach it, in this process or another one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from attar import errors, wire
from attar.errors import AttarError
from attar.library import Library
from attar.results import Change
from attar.server import LibraryBackend, ProblemError
from attar.store import Record, Signatures, key_of

# Methods that change documents: they go to the shard's one writer.
WRITES = frozenset({"add", "add_many", "append", "merge_records", "remove"})


class ShardBackend(LibraryBackend):
    """What the other shards of a library need of one, beside what a server does."""

    def __init__(self, library: Library) -> None:
        super().__init__(library)

    def rounds(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """The replies to calls of one round: methods of `SearchPart`, and their arguments."""
        return [getattr(self.library.part, method)(*arguments) for method, arguments in calls]

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Those names that no document has."""
        return [name for name in names if name not in self.library]

    def records(self, names: Sequence[str]) -> list[Record]:
        """Documents as they lie in the store, with their signatures, to be merged in another shard."""
        found = []
        with self.library.store.snapshot() as now:
            signatures = Signatures(now)
            for name in names:
                record = now.get(name)
                kept = signatures.get(key_of(name))
                signature = kept[1] if kept is not None and kept[0] == record.entry.changed else None
                found.append(replace(record.copied(), signature=signature))
        return found

    def merge_records(self, body: wire.Merge, key: str | None, others: Sequence[Record]) -> Change:
        """Make one document of several, some of which lie in other shards."""
        by_name = {record.name: record for record in others}
        options = {"title": body.title, "replace": body.replace, "key": key, "others": by_name}
        return self.library.merge(body.new, body.documents, **options)  # type: ignore[arg-type]


class Shard(Protocol):
    """A shard that can be called."""

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Start a call of a method of `ShardBackend`; the result waits for it, and raises its error.

        `UnavailableError` if the shard is not running.
        """

    def close(self) -> None:
        """Close the shard, or the way to it."""


class LocalShard:
    """A shard whose store this process opens."""

    def __init__(self, library: Library) -> None:
        self.backend = ShardBackend(library)

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method, when the result is asked for."""
        return lambda: getattr(self.backend, method)(*arguments)

    def close(self) -> None:
        """Close the store."""
        self.backend.close()


class Failure:
    """An error that can go to another process: exceptions of several arguments cannot be unpickled."""

    def __init__(self, error: AttarError | ProblemError) -> None:
        self.kind, self.message = type(error).__name__, str(error)
        self.status = error.status if isinstance(error, ProblemError) else None

    def error(self) -> Exception:
        """The error again."""
        if self.status is not None:
            return ProblemError(self.status, self.message, server_fault=True)
        kind = getattr(errors, self.kind, AttarError)
        error: Exception = kind.__new__(kind)
        # Constructors build a message from its parts; this one is complete already.
        Exception.__init__(error, self.message)
        return error


def reply_to(backend: ShardBackend, method: str, arguments: tuple[Any, ...]) -> Any:
    """The result of a call as it goes to another process: an error of the caller becomes a `Failure`."""
    try:
        result = getattr(backend, method)(*arguments)
    except (AttarError, ProblemError) as error:
        return Failure(error)
    if method in ("answer", "look_up"):
        return [Failure(each) if isinstance(each, AttarError | ProblemError) else each for each in result]
    return result


def result_of(reply: Any) -> Any:
    """The result that a reply holds; raises its error."""
    if isinstance(reply, Failure):
        raise reply.error()
    if isinstance(reply, list):
        return [each.error() if isinstance(each, Failure) else each for each in reply]
    return reply
