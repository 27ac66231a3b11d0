"""Documents read before `Adder` asks for them: a device reads the next ones while this process writes the last."""

import contextvars
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attar.errors import AttarError
from attar.library.drafts import Draft, Pace, batches, encode_texts
from attar.progress import Progress
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.reader.reader import Reader
    from attar.search.statistics import Projection

# Read at a time: enough to keep a device busy for about a second.
_CHARACTERS = 2**22


def read_ahead(
    drafts: Iterable[Draft],
    store: Store,
    reader: "Reader",
    projection: "Projection | None",
    batch_size: int,
    progress: Progress,
) -> Iterator[Draft]:
    """Yield documents in order, those read that the store does not have; the next batch is read meanwhile."""

    def read(batch: Sequence[Draft]) -> list[Draft]:
        with store.snapshot() as now:
            known = (now.find(draft.name) for draft in batch)
            new = [old is None or old.digest != draft.digest for draft, old in zip(batch, known, strict=True)]
        texts = [draft.text for draft, is_new in zip(batch, new, strict=True) if is_new]
        encoded = iter(encode_texts(reader, projection, texts, progress=progress))
        return [
            draft._replace(encoded=next(encoded)) if is_new else draft
            for draft, is_new in zip(batch, new, strict=True)
        ]

    ahead: Future[list[Draft]] | None = None
    failure: AttarError | None = None
    waiting = batches(drafts, batch_size, Pace(_CHARACTERS))
    with _quick_switches(), ThreadPoolExecutor(1, thread_name_prefix="read") as thread:
        while ahead is not None or failure is None:
            before, ahead = ahead, None
            try:
                batch = next(waiting, None) if failure is None else None
            except AttarError as fault:  # of the source: the documents before it are added
                batch, failure = None, fault
            if batch is not None:
                ahead = thread.submit(contextvars.copy_context().run, read, batch)
            if before is not None:
                yield from before.result()
            if batch is None:
                break
    if failure is not None:
        raise failure


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let threads switch more often: one that launches a kernel gives up its turn, and else waits 5 ms for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
