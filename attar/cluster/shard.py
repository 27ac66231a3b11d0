"""One shard of a library: the backend of its store, and how calls reach it, in this process or another one."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attar import wire
from attar.errors import AttarError
from attar.library.library import Library
from attar.library.rounds import scan_together
from attar.results import Change
from attar.server.local import LibraryBackend
from attar.server.problems import ProblemError
from attar.store.records import Record

# Methods that change documents: they go to the shard's one writer.
WRITES = frozenset({"add", "add_many", "append", "merge_records", "remove"})


class ShardBackend(LibraryBackend):
    """What the other shards of a library need of one, in addition to what a server does."""

    def prepare(self) -> None:
        """Load the reader, but what reads texts with the first text: there may be many shards on a machine."""
        self.library.reader.prepare(texts=False)

    def rounds(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """The replies to calls of one round: methods of `SearchPart`, and their arguments."""
        part = self.library.part
        scan_together(part, calls)
        return [getattr(part, method)(*arguments) for method, arguments in calls]

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Those names that no document has."""
        return [name for name in names if name not in self.library]

    def records(self, names: Sequence[str]) -> list[Record]:
        """Documents as they lie in the store, with their signatures, to be merged in another shard."""
        with self.library.store.snapshot() as now:
            return [now.get(name) for name in names]

    def merge_records(self, body: wire.Merge, key: str | None, others: Sequence[Record]) -> Change:
        """Make one document of several, some of which lie in other shards."""
        by_name = {record.name: record for record in others}
        parts = [by_name.get(name, name) for name in body.documents]
        return self.library.merge(body.new, parts, title=body.title, replace=body.replace, key=key)


class Shard(Protocol):
    """A shard that can be called."""

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Start a call of a method of `ShardBackend`; the result waits for it, and raises its error.

        `UnavailableError` if the shard is not running.
        """

    def close(self) -> None:
        """Close the shard, or its connection."""


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


def reply_to(backend: ShardBackend, method: str, arguments: tuple[Any, ...]) -> Any:
    """The result of a call, or an error of the caller: raised, it would come back with the trace of another process."""
    try:
        return getattr(backend, method)(*arguments)
    except (AttarError, ProblemError) as error:
        return error
