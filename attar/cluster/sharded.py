"""ShardedLibrary: a library whose documents lie in shards, used and served like one library.

A document is asked in the shard that its name hashes to. A question to all documents, and a search, take the steps of
`attar.library.asking` in all shards, so that the answers are those of one store. Work is a function of a shard's
`Library`, done where that is opened. If a shard is not running, its documents cannot be asked; the others can, and what
is missing is reported (`attar.library.served`).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial, reduce
from heapq import merge
from itertools import chain, groupby, islice, repeat
from typing import Literal, Protocol, TypeVar

from attar.cluster.shards import shard_of
from attar.errors import AttarError, ReaderMismatchError, UnavailableError, UnknownDocumentError
from attar.library.documents import closest
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.library.served import ServedLibrary, report_missing
from attar.library.shard import EachShard, OpenedShard
from attar.progress import Progress, check_stopped, ignore_progress
from attar.results import Asked, Change, Document, DocumentDetails, Subset
from attar.store.records import Record, key_of
from attar.store.store import Stats

# Documents listed at a time.
_PAGE = 1_000
# Calls of one shard that may wait at the same time: some questions, lists and changes.
_CALLS = 16

# Calls of one kind wait for each other, those of different kinds do not; what writes goes to the shard's one writer.
Kind = Literal["ask", "search", "read", "write", "sign"]
Result = TypeVar("Result")
Step = TypeVar("Step")
Work = Callable[[Library], Result]


class ShardLostError(Exception):
    """The process of a shard does not answer."""


class Shard(Protocol):
    """A shard that can be called."""

    def call(self, work: Work[Result], kind: Kind) -> Result:
        """What the work returns for the shard's library; `ShardLostError` if the shard is not running."""

    def close(self) -> None: ...


class LocalShard:
    """A shard whose store this process opens."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def call(self, work: Work[Result], kind: Kind) -> Result:
        return work(self.library)

    def close(self) -> None:
        self.library.close()


def not_running(number: int) -> UnavailableError:
    return UnavailableError(f"shard {number} of the library is not running", "try again; Ray restarts it")


class ShardedLibrary(ServedLibrary):
    """The library of some shards, in their order; with `at_once`, several of them are called at the same time."""

    def __init__(self, shards: Sequence[Shard], *, at_once: bool = False) -> None:
        self.shards = list(shards)
        self._threads = ThreadPoolExecutor(_CALLS * len(shards), "shard") if at_once else None

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        places: dict[int, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(self._number_of(name), []).append(place)
        work = {
            number: partial(
                Library.ask_each,
                names=[names[place] for place in here],
                questions=[questions[place] for place in here],
                top=top,
                look=look,
            )
            for number, here in places.items()
        }
        replies, lost = self._some(work, "ask")
        results: dict[int, Asked | AttarError] = {}
        for number, here in places.items():
            found = repeat(not_running(number)) if number in lost else replies[number]
            results |= zip(here, found, strict=False)
        return [results[place] for place in range(len(names))]

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        while True:
            count = _PAGE if limit is None else min(limit, _PAGE)
            page = list(
                islice(
                    merge(*self._running(partial(_page, after, count, within), reports=True), key=_key), count
                )
            )
            yield from page
            limit = None if limit is None else limit - len(page)
            if len(page) < count or limit == 0:
                return
            after = page[-1].name

    def __len__(self) -> int:
        return sum(self._running(len, reports=True))

    def __contains__(self, name: str) -> bool:
        return self._one(self._number_of(name), lambda library: name in library)

    def show(self, name: str) -> DocumentDetails:
        return self._call(name, partial(Library.show, name=name))

    def similar(self, name: str) -> list[str] | None:
        if name in self:
            return None
        similar = self._running(partial(Library.similar, name=name))
        return closest(name, sorted(chain(*filter(None, similar))))

    def add_many(
        self,
        documents: Iterable[tuple[str, str] | Draft],
        *,
        replace: bool = False,
        on_change: Callable[[Change], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        drafts = map(Draft.made, documents)
        changes: list[Change] = []
        for number, group in groupby(drafts, key=lambda draft: self._number_of(draft.name)):
            check_stopped()
            work = partial(Library.add_many, documents=list(group), replace=replace)
            for change in self._one(number, work, "write"):
                changes.append(change)
                if on_change is not None:
                    on_change(change)
        return changes

    def append(
        self, name: str, text: str | Draft, *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change:
        return self._call(name, partial(Library.append, name=name, text=text, key=key), "write")

    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Make one document of several: those of other shards are copied to the new document's shard."""
        names, number = list(names), self._number_of(new)
        self._refuse_unknown(names)
        elsewhere = [name for name in names if self._number_of(name) != number]
        copied = {record.name: record for record in chain(*self._in_shards(elsewhere, _records))}
        parts: list[str | Record] = [copied.get(name, name) for name in names]
        work = partial(Library.merge, new=new, names=parts, title=title, replace=replace, key=key)
        return self._one(number, work, "write")

    def remove(self, *names: str) -> None:
        """Remove documents: none if one does not exist, or if its shard is not running."""
        self._refuse_unknown(names)
        self._in_shards(names, lambda there, library: library.remove(*there), "write")

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Change tags: of no document if one does not exist, or if its shard is not running."""
        self._refuse_unknown(names)
        self._in_shards(names, lambda there, library: library.tag(*there, add=add, remove=remove), "write")

    def check_readers(self) -> None:
        """Refuse shards of different readers."""
        readers = self._running(lambda library: library.fingerprint)
        for number, reader in enumerate(readers):
            if reader != readers[0]:
                different = f"shard 0 has the reader {readers[0][:12]}, shard {number} {reader[:12]}"
                raise ReaderMismatchError(different, "attar reread that shard")

    @property
    def default_look(self) -> int:
        return min(self._running(lambda library: library.default_look, "ask"))

    def prepare(self) -> None:
        """Load the readers, but what reads texts with the first text: there may be many shards on a machine."""
        self.has_bank = all(self._running(_prepare, "ask"))

    def defer_signatures(self) -> None:
        self._running(Library.defer_signatures)

    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        """Make those of all shards; how many are missing is not known here."""
        self._running(Library.make_signatures, "sign")

    def stats(self) -> Stats:
        return reduce(_added, self._running(Library.stats))

    def check_disk(self) -> None:
        self._running(Library.check_disk)

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
        if self._threads is not None:
            self._threads.shutdown()

    def __enter__(self) -> "ShardedLibrary":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _one(self, number: int, work: Work[Result], kind: Kind = "read") -> Result:
        return self._these({number: work}, kind)[number]

    def _these(self, work: Mapping[int, Work[Result]], kind: Kind = "read") -> dict[int, Result]:
        """The results of shards, all of which must be running."""
        results, lost = self._some(work, kind)
        if lost:
            raise not_running(min(lost))
        return results

    def _running(self, work: Work[Result], kind: Kind = "read", *, reports: bool = False) -> list[Result]:
        """The results of the shards that are running, at least one; `reports` names the others as missing."""
        results, lost = self._some(dict.fromkeys(range(len(self.shards)), work), kind)
        if not results:
            raise not_running(0)
        if reports:
            report_missing([f"shard {number}" for number in sorted(lost)])
        return list(results.values())

    def _some(self, work: Mapping[int, Work[Result]], kind: Kind) -> tuple[dict[int, Result], set[int]]:
        """The results of shards, and the numbers of those that are lost; all calls end before an error is raised."""
        results: dict[int, Result] = {}
        lost: set[int] = set()
        errors: list[AttarError] = []

        def call(number: int) -> None:
            try:
                results[number] = self.shards[number].call(work[number], kind)
            except ShardLostError:
                lost.add(number)
            except AttarError as error:
                errors.append(error)

        if self._threads is None or len(work) == 1:
            for number in work:
                call(number)
        else:
            calls = [self._threads.submit(call, number) for number in work]
            wait(calls)
            for ended in calls:
                ended.result()
        if errors:
            raise errors[0]
        return dict(sorted(results.items())), lost

    def _ask_shards(self, ask: Callable[[EachShard], Result]) -> Result:
        """Ask the shards that are running; if one is lost, the others again, so that all answers are theirs."""
        lost: set[int] = set()

        def each_shard(step: Callable[[OpenedShard], Step]) -> list[Step]:
            running = (number for number in range(len(self.shards)) if number not in lost)
            results, now_lost = self._some(dict.fromkeys(running, partial(_run_step, step)), "search")
            if now_lost:
                lost.update(now_lost)
                raise ShardLostError
            return list(results.values())

        while len(lost) < len(self.shards):
            with contextlib.suppress(ShardLostError):
                result = ask(each_shard)
                report_missing([f"shard {number}" for number in sorted(lost)])
                return result
        raise not_running(0)

    def _number_of(self, name: str) -> int:
        return shard_of(name, len(self.shards))

    def _in_shards(
        self, names: Iterable[str], work: Callable[[list[str], Library], Result], kind: Kind = "read"
    ) -> list[Result]:
        """What work returns in each shard that has some of the names, all of which must be running."""
        by_shard: dict[int, list[str]] = {}
        for name in names:
            by_shard.setdefault(self._number_of(name), []).append(name)
        calls = {number: partial(work, there) for number, there in by_shard.items()}
        return list(self._these(calls, kind).values())

    def _call(self, name: str, work: Work[Result], kind: Kind = "read") -> Result:
        """A call of the shard of a name; names that are suggested for an unknown one are those of all shards."""
        with self._suggesting([name]):
            return self._one(self._number_of(name), work, kind)

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        unknown = self._in_shards(
            names, lambda there, library: [name for name in there if name not in library]
        )
        for name in chain(*unknown):
            raise UnknownDocumentError.named(name, self.similar(name) or ())


def _run_step(step: Callable[[OpenedShard], Result], library: Library) -> Result:
    with library.opened() as shard:
        return step(shard)


def _key(document: Document) -> bytes:
    return key_of(document.name) if document.name else b""


def _added(one: Stats, other: Stats) -> Stats:
    """The totals of two shards, of one reader."""
    totals = "documents", "tokens", "memory_bytes", "text_bytes", "file_bytes", "free_bytes"
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in totals})


def _prepare(library: Library) -> bool:
    library.reader.prepare(texts=False)
    return library.has_bank


def _page(after: str | None, limit: int, within: Subset | None, library: Library) -> list[Document]:
    return list(library.documents(after=after, limit=limit, within=within))


def _records(names: Sequence[str], library: Library) -> list[Record]:
    """Documents as they lie in the store, with their signatures, to be merged in another shard."""
    with library.store.snapshot() as now:
        return [now.get(name) for name in names]
