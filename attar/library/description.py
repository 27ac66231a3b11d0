"""What is told of documents, as plain values: for `--json`, and for whoever asks over a wire."""

from datetime import UTC, datetime
from typing import Any

from attar.library.adding import Outcome
from attar.store import DocumentEntry, Record


def describe(facts: DocumentEntry) -> dict[str, Any]:
    """What a list tells of a document.

    >>> facts = DocumentEntry("emma", "Emma", bytes(32), 0, 1_500_000, 7, "names", "float16", 400)
    >>> told = describe(facts)
    >>> told["name"], told["tokens"], told["bytes"], told["changed"]
    ('emma', 7, 400, '1970-01-01T00:00:01.500000+00:00')
    """
    return {
        "name": facts.name,
        "title": facts.title,
        "tokens": facts.tokens,
        "bytes": facts.memory_bytes,
        "text_bytes": facts.text_bytes,
        "form": facts.form,
        "dtype": facts.dtype,
        "digest": facts.digest.hex() or None,
        "created": moment(facts.created),
        "changed": moment(facts.changed),
    }


def describe_record(record: Record) -> dict[str, Any]:
    """What is told of one document: its facts, its memory's kind, and the names that it can answer with."""
    memory = record.memory
    return describe(record.entry) | {
        "mechanism": memory.mechanism,
        "size": memory.size,
        "reader": memory.reader,
        "names": list(memory.names.names),
        "text": record.text,
    }


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """What is told of a change.

    >>> describe_outcome(Outcome("emma", "added", 7, 400))
    {'name': 'emma', 'change': 'added', 'tokens': 7, 'bytes': 400}
    """
    return outcome._asdict()


def moment(microseconds: int) -> str:
    """A time of the store's, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()
