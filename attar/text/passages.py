"""Passages: what stands around a sentence, long enough to be understood alone, by a person or a language model."""

import re

# The most characters of a passage: some 250 tokens of a language model.
LONGEST_PASSAGE = 1_200
# Where a passage may begin or end, the best first: between paragraphs, lines, sentences.
_BREAKS = [re.compile(pattern) for pattern in (r"\n\s*\n\s*", r"\n\s*", r"(?<=[.!?])\s+")]


def passage_around(text: str, start: int, end: int, longest: int = LONGEST_PASSAGE) -> tuple[int, int]:
    r"""The characters of as many whole paragraphs around a sentence as fit, its own first.

    If its own is too long, whole lines; or else sentences; a sentence of more than `longest` characters is alone.

    >>> text = "A title\n\nAnn came. Bob left. He took the bus.\n\nNobody saw him again."
    >>> begin, stop = passage_around(text, 19, 28, longest=40)
    >>> text[begin:stop]
    'Ann came. Bob left. He took the bus.'
    """
    # What is further away cannot be a part of it; a break may stand outside.
    low, high = max(start - longest - 2, 0), min(end + longest + 2, len(text))
    for pattern in _BREAKS:
        breaks = [found.span() for found in pattern.finditer(text, low, high)]
        begins = [stop for _, stop in breaks if stop <= start]
        stops = [begin for begin, _ in breaks if begin >= end]
        if low == 0:
            begins.insert(0, low + len(text[:start]) - len(text[:start].lstrip()))
        if high == len(text):
            stops.append(end + len(text[end:].rstrip()))
        if begins and stops and stops[0] - begins[-1] <= longest:
            return _grown(begins, stops, longest)
    return start, end


def _grown(begins: list[int], stops: list[int], longest: int) -> tuple[int, int]:
    """The last beginning and the first end, moved apart by turns while there is room."""
    begin, stop = begins.pop(), stops.pop(0)
    while True:
        grew = False
        if stops and stops[0] - begin <= longest:
            stop, grew = stops.pop(0), True
        if begins and stop - begins[-1] <= longest:
            begin, grew = begins.pop(), True
        if not grew:
            return begin, stop


def passages_around(text: str, sentences: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The passages around sentences, in the order of those; passages that overlap are one.

    >>> passages_around("Ann came. Bob left.", [(10, 19), (0, 9)])
    [(0, 19)]
    """
    passages: list[tuple[int, int]] = []
    for start, end in sentences:
        begin, stop = passage_around(text, start, end)
        for at, (other_begin, other_stop) in enumerate(passages):
            if begin < other_stop and other_begin < stop:
                passages[at] = min(begin, other_begin), max(stop, other_stop)
                break
        else:
            passages.append((begin, stop))
    return passages
