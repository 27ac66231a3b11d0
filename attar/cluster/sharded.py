"""ShardedLibrary: a library whose documents lie in shards, used like one library, and served like one.

A document is asked in the shard that its name hashes to. A question to all documents, and a search, go to all shards in
rounds (`attar.library`), whose answers are those of one store. If a shard is not running, its documents cannot be
asked; the others can, and what is missing is named.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any

from attar import wire
from attar.cluster.scatter import Scatter
from attar.cluster.shard import LocalShard, Shard
from attar.cluster.shards import shard_of, shard_paths
from attar.errors import UnavailableError, UnknownDocumentError
from attar.library.drafts import Draft
from attar.library.finding import closest
from attar.library.library import Library
from attar.library.rounds import ask_rounds, search_rounds
from attar.results import Answer, Change, Document, DocumentDetails, Hit
from attar.server.backend import AskJob, AskResult, Listed, Partial
from attar.store.maintenance import Stats
from attar.store.records import key_of


class ShardedLibrary(Scatter):
    """The library of some shards, in their order; a backend of the server (`attar.server.Backend`)."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self._fingerprint: str | None = None

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        reader: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        keep_text: bool = True,
        lists_from: int | None = None,
    ) -> "ShardedLibrary":
        """Open all shards of a folder in this process."""
        options: dict[str, Any] = {"read_only": read_only, "keep_text": keep_text, "create": False}
        options["lists_from"] = lists_from
        return cls([LocalShard(Library(path, reader, **options)) for path in shard_paths(Path(folder))])

    def _of(self, name: str) -> int:
        return shard_of(name, len(self.shards))

    def _named(self, name: str, method: str, *arguments: Any) -> Any:
        """A call of the shard of a name; names that are suggested for an unknown one are those of all shards."""
        try:
            return self.call(self._of(name), method, *arguments)
        except UnknownDocumentError:
            raise UnknownDocumentError.named(name, self.similar(name) or ()) from None

    def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask`."""
        (result,) = self.answer([AskJob([name], [question], top)])
        if isinstance(result, Exception):
            raise result
        return result.answers[0]

    def answer(self, jobs: list[AskJob]) -> list[AskResult | Exception]:
        """The result of each job, or its error; the questions of all jobs to one shard are one batch of it."""
        own: dict[int, list[tuple[int, list[int]]]] = {}
        for at, job in enumerate(jobs):
            for number, places in _places(self._of(name) for name in job.names).items():
                own.setdefault(number, []).append((at, places))
        sent = {
            number: ([_some_questions(jobs[at], places) for at, places in each],)
            for number, each in own.items()
        }
        answers: list[list[Any]] = [[None] * len(job.questions) for job in jobs]
        read, errors = [0] * len(jobs), dict[int, tuple[int, Exception]]()
        for number, results in self.scatter("answer", sent).items():
            lost = isinstance(results, Exception)
            for (at, places), result in zip(
                own[number], [results] * len(own[number]) if lost else results, strict=True
            ):
                if isinstance(result, Exception):
                    # The first document's error, as in one store.
                    errors[at] = min(errors.get(at, (places[0], result)), (places[0], result), key=_first)
                    continue
                read[at] += result.bytes
                for place, each in zip(places, result.answers, strict=True):
                    answers[at][place] = each
        return [
            errors[at][1] if at in errors else AskResult(answers[at], read[at]) for at in range(len(jobs))
        ]

    def ask_all(self, questions: Sequence[str], top: int | None = 5) -> Partial[list[list[Answer]]]:
        """The answers to questions from all documents, as `Library.ask_all` gives them."""
        return self.over_all(lambda question: ask_rounds(question, top), questions)

    def search(self, query: str, top: int = 10) -> Partial[list[Hit]]:
        """The documents that fit a query best, as `Library.search` gives them."""
        (hits,), missing = self.over_all(lambda each: search_rounds(each, top), [query])
        return Partial(hits, missing)

    def page(self, after: str | None, limit: int) -> Partial[Listed]:
        """Some documents in the order of names."""
        found, missing = self.all("page", after, limit)
        pages = [each.value for each in found.values()]
        documents = merge(*(page.documents for page in pages), key=_key)
        return Partial(
            Listed([*itertools.islice(documents, limit)], sum(page.total for page in pages)), missing
        )

    def documents(self) -> Iterable[Document]:
        """All documents, in the order of names."""
        after = None
        while True:
            (found, _), missing = self.page(after, 1_000)
            if missing:
                raise UnavailableError.expected(
                    "library", "all shards", f"without {', '.join(missing)}", "try again"
                )
            yield from found
            if len(found) < 1_000:
                return
            after = found[-1].name

    def __len__(self) -> int:
        return self.page(None, 1).value.total

    def __bool__(self) -> bool:
        return True

    def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        shown: DocumentDetails = self._named(name, "show", name)
        return shown

    def add(self, name: str, text: str, title: str = "", replace: bool = False) -> Change:
        """Add a document to its shard."""
        change: Change = self.call(self._of(name), "add", name, text, title, replace)
        return change

    def add_many(self, drafts: Sequence[Draft], replace: bool = False) -> list[Change]:
        """Add documents, in order: those before a refused one are added."""
        changes: list[Change] = []
        for number, own in groupby(drafts, key=lambda draft: self._of(draft.name)):
            changes += self.call(number, "add_many", list(own), replace)
        return changes

    def append(self, name: str, text: str, key: str | None = None) -> Change:
        """Continue a document."""
        change: Change = self._named(name, "append", name, text, key)
        return change

    def merge(self, body: wire.Merge, key: str | None = None) -> Change:
        """Make one document of several: those of other shards are copied to the new document's shard."""
        own = self._of(body.new)
        names = list(dict.fromkeys(body.documents))
        elsewhere = {
            number: ([names[place] for place in places],)
            for number, places in _places(map(self._of, names)).items()
            if number != own
        }
        try:
            found = self.scatter("records", elsewhere)
            for each in found.values():
                if isinstance(each, UnavailableError):
                    raise each
            others = [record for records in found.values() for record in records]
            change: Change = self.call(own, "merge_records", body, key, others)
        except UnknownDocumentError:
            self._refuse_unknown(names)
            raise
        return change

    def remove(self, names: Sequence[str]) -> None:
        """Remove documents: none if one does not exist, or if its shard is not running."""
        by_number = _places(map(self._of, names))
        self._refuse_unknown(names)
        sent = {number: ([names[place] for place in places],) for number, places in by_number.items()}
        for result in self.scatter("remove", sent).values():
            if isinstance(result, UnavailableError):
                raise result

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        by_number = _places(map(self._of, names))
        sent = {number: ([names[place] for place in places],) for number, places in by_number.items()}
        unknown: set[str] = set()
        for result in self.scatter("unknown", sent).values():
            if isinstance(result, UnavailableError):
                raise result
            unknown.update(result)
        for name in names:
            if name in unknown:
                raise UnknownDocumentError.named(name, self.similar(name) or ())

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""
        if self.call(self._of(name), "similar", name) is None:
            return None
        found, _ = self.all("similar", name)
        return closest(name, sorted(other for own in found.values() for other in own or ()))

    def prepare(self) -> None:
        """Load the readers of all shards."""
        self.all("prepare")

    def prepare_search(self) -> None:
        """Load the signatures of all shards."""
        self.all("prepare_search")

    def fingerprint(self) -> str:
        """The reader's."""
        if self._fingerprint is None:
            self._fingerprint = str(self.anywhere("fingerprint"))
        return self._fingerprint

    def stats(self) -> Stats:
        """The totals of the shards that are running."""
        found, _ = self.all("stats")
        first, *others = found.values()
        total: Stats = first
        for each in others:
            total = replace(total, **{name: getattr(total, name) + getattr(each, name) for name in _TOTALS})
        return total

    def check_disk(self) -> None:
        """Refuse if a disk cannot be written."""
        self.all("check_disk")

    def close(self) -> None:
        """Close all shards."""
        for shard in self.shards:
            shard.close()

    def __enter__(self) -> "ShardedLibrary":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_TOTALS = (
    "documents", "tokens", "memory_bytes", "text_bytes", "file_bytes", "free_bytes", "map_bytes", "changes",
    "readers",
)  # fmt: skip


def _places(numbers: Iterable[int]) -> dict[int, list[int]]:
    """The places at which each number stands.

    >>> _places([1, 0, 1])
    {1: [0, 2], 0: [1]}
    """
    found: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        found.setdefault(number, []).append(place)
    return found


def _first(error: tuple[int, Exception]) -> int:
    return error[0]


def _some_questions(job: AskJob, places: Sequence[int]) -> AskJob:
    return AskJob([job.names[at] for at in places], [job.questions[at] for at in places], job.top)


def _key(document: Document) -> bytes:
    return key_of(document.name) if document.name else b""
