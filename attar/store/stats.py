"""How much of everything a store holds, from its head and LMDB's own counters."""

from dataclasses import dataclass

from attar.store.environment import Environment
from attar.store.reading import about_in
from attar.store.seal import VERSION


@dataclass(frozen=True)
class Stats:
    """Counts, and sizes in bytes; `free_bytes` is what new documents fill first, or `compact` gives back."""

    version: int
    reader: str | None
    dtype: str
    documents: int
    tokens: int
    memory_bytes: int
    text_bytes: int
    file_bytes: int
    free_bytes: int
    map_bytes: int
    changes: int
    readers: int


def stats_of(environment: Environment) -> Stats:
    """Say how much of everything there is, without going through it."""
    with environment.moment() as transaction:
        about = about_in(transaction, environment)
        info = environment.map.info()
        pages = transaction.stat(environment.map.open_db(None))
        file = environment.file_bytes()
    metas = 2
    used = metas + pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
    return Stats(
        version=VERSION,
        reader=about.reader,
        dtype=about.dtype,
        documents=about.documents,
        tokens=about.tokens,
        memory_bytes=about.memory_bytes,
        text_bytes=about.text_bytes,
        file_bytes=file,
        free_bytes=max(0, file - used * pages["psize"]),
        map_bytes=info["map_size"],
        changes=info["last_txnid"],
        readers=info["num_readers"],
    )
