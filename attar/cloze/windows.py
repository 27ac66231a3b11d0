"""Documents for cloze sets cut from longer texts: windows at sentences' ends, read by themselves."""

import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from attar.cloze.document import ClozeDocument
from attar.text import NameFinder, NameTable, SourceDocument, iterate_sentences, mark


def cut_windows(sentences: Sequence[list[str]], size: int) -> Iterator[list[list[str]]]:
    """Cut at sentences' ends into windows of about `size` tokens, all of them about as long.

    >>> [sum(map(len, window)) for window in cut_windows([["a"] * 5] * 9, 20)]
    [25, 20]
    """
    total = sum(map(len, sentences))
    number = max(1, round(total / size))
    window: list[list[str]] = []
    done, cut = 0, 1
    for sentence in sentences:
        window.append(sentence)
        done += len(sentence)
        if done * number >= cut * total:
            yield window
            window = []
            cut += 1


def number_names(
    marked: Iterable[Sequence[str]], table: NameTable, order: Sequence[int]
) -> tuple[list[list[str]], dict[int, str]]:
    """Give `@entityN` the number `order[N]`, lower-case the other words, list the names by new number."""
    renamed = {f"@entity{old}": f"@entity{new}" for old, new in enumerate(order)}
    sentences = [[renamed.get(token) or token.lower() for token in sentence] for sentence in marked]
    return sentences, dict(sorted((order[old], name) for old, name in enumerate(table.names)))


def read_windows(
    document: SourceDocument, finder: NameFinder, size: int, entities: int, seed: int
) -> Iterator[tuple[ClozeDocument, np.random.Generator]]:
    """Yield a text's windows, names numbered in a random order, each with the generator that chose it."""
    for number, window in enumerate(cut_windows(list(iterate_sentences(document.text)), size)):
        name = f"{document.name}#{number}"
        # Seeded by name, so that a document becomes the same whatever stands before it.
        rng = np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "replace"))])
        table = NameTable(entities)
        marked = list(mark(window, table, finder))
        sentences, names = number_names(marked, table, rng.permutation(len(table)).tolist())
        yield ClozeDocument(name, document.source, sentences, names), rng
