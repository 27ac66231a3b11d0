"""`python -m benchmarks.spelling squad2-dev.json.xz`: what other spellings of a query's words do to the ranking.

Every passage becomes a document. Questions are ranked as they are, and with one mistake in a name: a letter left out,
added, changed, or swapped with the next. Each with and without looking for other spellings in the library.
"""

import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated
from unittest.mock import patch

import numpy as np
import typer

from attar.cli.output import columns, print_json, progress_bar
from attar.library import finding
from attar.library.library import Library
from attar.library.shard import OpenedShard
from benchmarks.command import Json, ReaderFolder, run_command
from benchmarks.retrieval.sets import read_set

# A word that is likely a name: a capital, not at the beginning.
_NAME = re.compile(r"(?<!^)\b[A-Z][a-z]{4,}\b")
_RANKED = 50


def mistyped(text: str, rng: random.Random) -> str | None:
    """A text with one mistake in one of its names, after the first letter; None without a name."""
    names = list(_NAME.finditer(text))
    if not names:
        return None
    name = rng.choice(names)
    at = rng.randrange(name.start() + 1, name.end())
    before, letter, after = text[:at], text[at], text[at + 1 :]
    other = rng.choice(ascii_lowercase.replace(letter, ""))
    is_swapped = at + 1 < name.end() and after[0] != letter
    swapped = after[0] + letter + after[1:] if is_swapped else other + after
    return before + rng.choice((after, other + letter + after, other + after, swapped))


def measured(shard: OpenedShard, questions: list[tuple[str, str]], *, look: bool) -> dict[str, float]:
    """Recall, mean reciprocal rank, the share of questions with words spelled otherwise, and CPU time."""
    changed: list[bool] = []
    real = finding._other_spellings

    def spellings(*arguments: object) -> list[list[str]]:
        found = real(*arguments) if look else [[]]  # type: ignore[arg-type]
        changed.append(any(found))
        return found

    ranks, began = [], time.process_time()
    with patch.object(finding, "_other_spellings", spellings):
        for text, name in questions:
            (found,) = finding.find_candidates(shard.alone, [text], _RANKED)
            names = [document.name for document in found]
            ranks.append(names.index(name) + 1 if name in names else np.inf)
    seconds = time.process_time() - began
    return {
        "R@1": float(np.mean([rank == 1 for rank in ranks])),
        "R@10": float(np.mean([rank <= 10 for rank in ranks])),
        "MRR": float(np.mean([1 / rank for rank in ranks])),
        "changed": float(np.mean(changed)),
        "CPU ms": 1e3 * seconds / len(questions),
    }


def rows(library: Library, questions: list[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """The figures of each kind of question, with and without other spellings."""
    rng = random.Random(0)
    with_mistakes = [(wrong, name) for text, name in questions if (wrong := mistyped(text, rng))]
    with library.opened() as shard:
        for kind, some in (("as asked", questions), ("a mistake in a name", with_mistakes)):
            if some:
                measured(shard, some, look=False)  # queries are encoded once
                for look in (False, True):
                    figures = measured(shard, some, look=look)
                    yield {"questions": f"{len(some)} {kind}", "other spellings": look, **figures}


def main(
    data: Annotated[Path, typer.Argument(metavar="SET", help="A BEIR-style folder, or SQuAD's JSON.")],
    queries: Annotated[int, typer.Option(min=1, help="Queries, drawn at random.")] = 500,
    reader: ReaderFolder = None,
    json: Json = False,
) -> None:
    """Measure what other spellings do to the ranking."""
    chosen = read_set(data).sample(queries)
    with tempfile.TemporaryDirectory() as folder, Library(Path(folder) / "library", reader) as library:
        with progress_bar() as progress:
            library.add_many([(str(at), text) for at, text in enumerate(chosen.documents)], progress=progress)
        best = [str(max(gains, key=lambda at: gains[at])) for gains in chosen.relevant]
        found = list(rows(library, list(zip(chosen.queries, best, strict=True))))
    if json:
        print_json(found)
        return
    names = list(found[0])
    cells = [
        [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in found
    ]
    print(columns([names, *cells]))


if __name__ == "__main__":
    run_command(main)
