"""Where answers stand in a document: pages, headings and rows, also in documents that grew or were merged."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from attar.results import Answer
from attar.store.records import Origin, Parts, Record, unpack_parts


def with_places(answers: list[Answer], parts: Parts) -> list[Answer]:
    """Answers with the labels of the parts that they stand in."""
    if not parts:
        return answers
    return [
        answer
        if answer.start is None
        else msgspec.structs.replace(answer, place=place_in(parts, answer.start))
        for answer in answers
    ]


def appended_origin(before: Record, parts: Parts, joint: int) -> Origin:
    """The origin of a document after a text was appended: its file is no longer the whole of it."""
    earlier = unpack_parts(before.entry.parts, before.name)
    if not earlier and not parts:
        return Origin("", before.entry.date, incomplete=before.entry.incomplete)
    # The pages of two files would have the same labels.
    labelled = [(at, f"appended, {label}" if label else "") for at, label in parts] if earlier else [*parts]
    first = [] if labelled and labelled[0][0] == 0 else [(0, "")]
    length = _characters(before)
    return Origin(
        "",
        before.entry.date,
        [*earlier, *shifted([*first, *labelled], length + (joint if length else 0))],
        before.entry.incomplete,
    )


def merged_origin(records: Sequence[Record], joint: int) -> Origin:
    """The origin of merged documents: each one is a part, and so are its parts."""
    texts = [
        (record.name, unpack_parts(record.entry.parts, record.name), _characters(record))
        for record in records
    ]
    missing = [f"{record.name}: {record.entry.incomplete}" for record in records if record.entry.incomplete]
    return Origin(parts=joined_parts(texts, joint), incomplete="; ".join(missing))


def _characters(record: Record) -> int:
    """The characters of a document's text, which need not be kept."""
    return record.memory.phrases.characters


def place_in(parts: Parts, character: int) -> str | None:
    """The label of the part that holds a character.

    >>> parts = [(0, "page 1"), (900, "page 2"), (950, "")]
    >>> place_in(parts, 899), place_in(parts, 900), place_in(parts, 999), place_in([], 0)
    ('page 1', 'page 2', None, None)
    """
    at = bisect_right(parts, character, key=lambda part: part[0])
    return (parts[at - 1][1] or None) if at else None


def shifted(parts: Parts, characters: int) -> list[tuple[int, str]]:
    """The parts of a text that begins later in another.

    >>> shifted([(0, "page 1")], 50)
    [(50, 'page 1')]
    """
    return [(start + characters, label) for start, label in parts]


def joined_parts(texts: Iterable[tuple[str, Parts, int]], joint: int) -> list[tuple[int, str]]:
    """The parts of a text of several: each text's name, parts and length; they are `joint` characters apart.

    >>> joined_parts([("a.pdf", [(0, "page 1")], 50), ("b", [], 9)], 2)
    [(0, 'a.pdf, page 1'), (52, 'b')]
    """
    parts: list[tuple[int, str]] = []
    start = 0
    for name, parts_of_text, length in texts:
        labelled = [(at, f"{name}, {label}" if label else name) for at, label in parts_of_text]
        first = [] if labelled and labelled[0][0] == 0 else [(0, name)]
        parts += shifted([*first, *labelled], start)
        start += length + (joint if start + length else 0)
    return parts
