"""ShardedLibrary: a library whose documents lie in shards, used and served like one library.

A document is asked in the shard that its name hashes to. A question to all documents, and a search, take the steps of
`attar.library.asking` in all shards, so that the answers are those of one store. If a shard is not running, its
documents cannot be asked; the others can, and what is missing is reported (`attar.library.served`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from heapq import merge
from itertools import chain, groupby, islice, repeat

from attar.cluster.calls import Kind, Result, Shard, ShardCalls, Work, not_running
from attar.cluster.shards import shard_of
from attar.errors import AttarError, ReaderMismatchError, UnknownDocumentError
from attar.library.asking import TOGETHER, ask_all, list_answers, search, verify
from attar.library.documents import closest
from attar.library.drafts import Draft
from attar.library.library import Library
from attar.progress import Progress, check_stopped, ignore_progress
from attar.results import Answer, AnswerGroup, Asked, Change, Document, DocumentDetails, Hit, Subset, Verified
from attar.store.maintenance import Stats
from attar.store.records import Record, key_of

# Documents listed at a time.
_PAGE = 1_000


class ShardedLibrary:
    """The library of some shards, in their order, with the methods of `Library`."""

    def __init__(self, shards: Sequence[Shard], *, at_once: bool = False) -> None:
        self._calls = ShardCalls(shards, at_once=at_once)

    @property
    def shards(self) -> list[Shard]:
        return self._calls.shards

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        by_shard: dict[int, list[tuple[str, str]]] = {}
        for name, question in zip(names, questions, strict=True):
            by_shard.setdefault(self._number_of(name), []).append((name, question))
        work = {number: partial(_ask_each, pairs, top, look) for number, pairs in by_shard.items()}
        replies, lost = self._calls.some(work, "ask")
        results: dict[int, Iterator[Asked | AttarError]] = {
            **{number: iter(reply) for number, reply in replies.items()},
            **{number: repeat(not_running(number)) for number in lost},
        }
        return [next(results[self._number_of(name)]) for name in names]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        groups = [questions[first : first + TOGETHER] for first in range(0, len(questions), TOGETHER)]
        return self._calls.ask(
            lambda each_shard: [
                answers for group in groups for answers in ask_all(each_shard, group, top, look, within)
            ]
        )

    def list_answers(
        self,
        question: str,
        *,
        top: int | None = None,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[AnswerGroup]:
        return self._calls.ask(lambda each_shard: list_answers(each_shard, question, top, look, within))

    def search(
        self, query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
    ) -> list[Hit]:
        return self._calls.ask(lambda each_shard: search(each_shard, query, top, within, passages))

    def verify(self, quote: str, *, within: Subset | None = None) -> Verified:
        return self._calls.ask(lambda each_shard: verify(each_shard, quote, within))

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        while True:
            count = _PAGE if limit is None else min(limit, _PAGE)
            page = list(
                islice(merge(*self._calls.all(partial(_page, after, count, within)), key=_key), count)
            )
            yield from page
            limit = None if limit is None else limit - len(page)
            if len(page) < count or limit == 0:
                return
            after = page[-1].name

    def __len__(self) -> int:
        return sum(self._calls.all(len))

    def __contains__(self, name: str) -> bool:
        return self._calls.one(self._number_of(name), lambda library: name in library)

    def show(self, name: str) -> DocumentDetails:
        return self._call(name, partial(Library.show, name=name))

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has, in any shard; None if there is a document of that name."""
        if name in self:
            return None
        similar = self._calls.running(partial(Library.similar, name=name))
        return closest(name, sorted(chain(*filter(None, similar))))

    def add_many(
        self,
        documents: Iterable[tuple[str, str] | Draft],
        *,
        replace: bool = False,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Add documents, in order: those before a refused one are added."""
        drafts = (document if isinstance(document, Draft) else Draft.of(*document) for document in documents)
        changes: list[Change] = []
        for number, group in groupby(drafts, key=lambda draft: self._number_of(draft.name)):
            check_stopped()
            work = partial(Library.add_many, documents=list(group), replace=replace)
            changes += self._calls.one(number, work, "write")
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
        elsewhere = {
            other: partial(_records, there)
            for other, there in self._by_shard(names).items()
            if other != number
        }
        copied = {record.name: record for record in chain(*self._calls.these(elsewhere).values())}
        parts: list[str | Record] = [copied.get(name, name) for name in names]
        work = partial(Library.merge, new=new, names=parts, title=title, replace=replace, key=key)
        return self._calls.one(number, work, "write")

    def remove(self, *names: str) -> None:
        """Remove documents: none if one does not exist, or if its shard is not running."""
        self._refuse_unknown(names)
        by_shard = self._by_shard(names)
        self._calls.these({number: partial(_remove, there) for number, there in by_shard.items()}, "write")

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Change tags: of no document if one does not exist, or if its shard is not running."""
        self._refuse_unknown(names)
        work = {number: partial(_tag, there, add, remove) for number, there in self._by_shard(names).items()}
        self._calls.these(work, "write")

    def check_readers(self) -> None:
        """Refuse shards of different readers."""
        readers = self._calls.running(lambda library: library.fingerprint)
        for number, reader in enumerate(readers):
            if reader != readers[0]:
                different = f"shard 0 has the reader {readers[0][:12]}, shard {number} {reader[:12]}"
                raise ReaderMismatchError(different, "attar reread that shard")

    @property
    def default_look(self) -> int:
        return min(self._calls.running(lambda library: library.default_look, "ask"))

    def prepare(self) -> None:
        """Load the readers, but what reads texts with the first text: there may be many shards on a machine."""
        self._calls.running(lambda library: library.reader.prepare(texts=False), "ask")

    def load_signatures(self) -> None:
        self._calls.running(Library.load_signatures, "search")

    def defer_signatures(self) -> None:
        self._calls.running(Library.defer_signatures)

    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        """Make those of all shards; how many are missing is not known here."""
        self._calls.running(Library.make_signatures, "sign")

    def stats(self) -> Stats:
        """The totals of the shards that are running."""
        return reduce(_added, self._calls.running(Library.stats))

    def check_disk(self) -> None:
        self._calls.running(Library.check_disk)

    def close(self) -> None:
        self._calls.close()

    def __enter__(self) -> "ShardedLibrary":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _number_of(self, name: str) -> int:
        return shard_of(name, len(self.shards))

    def _by_shard(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Names by the number of the shard that has their documents."""
        by_shard: dict[int, list[str]] = {}
        for name in names:
            by_shard.setdefault(self._number_of(name), []).append(name)
        return by_shard

    def _call(self, name: str, work: Work[Result], kind: Kind = "read") -> Result:
        """A call of the shard of a name; names that are suggested for an unknown one are those of all shards."""
        try:
            return self._calls.one(self._number_of(name), work, kind)
        except UnknownDocumentError:
            raise self._unknown(name) from None

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        by_shard = self._by_shard(names)
        unknown = self._calls.these({number: partial(_unknown, there) for number, there in by_shard.items()})
        for name in chain(*unknown.values()):
            raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownDocumentError:
        return UnknownDocumentError.named(name, self.similar(name) or ())


def _key(document: Document) -> bytes:
    return key_of(document.name) if document.name else b""


def _added(one: Stats, other: Stats) -> Stats:
    """The totals of two shards; what is no total is that of the first."""
    totals = (
        "documents", "tokens", "memory_bytes", "text_bytes", "file_bytes", "free_bytes", "map_bytes",
        "changes", "readers",
    )  # fmt: skip
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in totals})


# Work of a shard.


def _ask_each(
    pairs: Sequence[tuple[str, str]], top: int | None, look: int | None, library: Library
) -> list[Asked | AttarError]:
    names, questions = zip(*pairs, strict=True)
    return library.ask_each(names, questions, top=top, look=look)


def _page(after: str | None, limit: int, within: Subset | None, library: Library) -> list[Document]:
    return list(library.documents(after=after, limit=limit, within=within))


def _unknown(names: Sequence[str], library: Library) -> list[str]:
    return [name for name in names if name not in library]


def _remove(names: Sequence[str], library: Library) -> None:
    library.remove(*names)


def _tag(names: Sequence[str], add: Sequence[str], remove: Sequence[str], library: Library) -> None:
    library.tag(*names, add=add, remove=remove)


def _records(names: Sequence[str], library: Library) -> list[Record]:
    """Documents as they lie in the store, with their signatures, to be merged in another shard."""
    with library.store.snapshot() as now:
        return [now.get(name) for name in names]
