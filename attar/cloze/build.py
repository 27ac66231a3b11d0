"""Cloze sets from plain text: documents are split, cut into windows, and sentences held out as questions."""

import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attar.cloze.documents import ClozeDocument, DocumentWriter, count_names
from attar.cloze.options import SPLITS, BuildOptions
from attar.cloze.questions import draw_questions
from attar.cloze.sets import ABOUT_FILE, VOCABULARY_FILE
from attar.documents.sources import SourceDocument
from attar.documents.workers import read_sources
from attar.errors import AttarError, FormatError, OptionError
from attar.files import AtomicFiles, refuse_existing
from attar.progress import Progress, ignore_progress
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, NameFinder, mark_names
from attar.text.tokens import iterate_sentences
from attar.text.vocabulary import Vocabulary

_RULE = re.compile(r"i\s*%\s*(\d{1,9})\s*==\s*(\d{1,9})")


def build_set(
    sources: Sequence[str | Path],
    out: Path,
    options: BuildOptions | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    finder: NameFinder | None = None,
    replace: bool = False,
    progress: Progress = ignore_progress,
) -> dict[str, Any]:
    """Build a set from text files; training documents keep all sentences, the others get their questions here.

    Without a vocabulary, one is built from the training documents, or from all documents if there are none. A
    folder that has a set already is refused unless `replace`.
    """
    options = options or BuildOptions()
    if not replace:
        written = (ABOUT_FILE, VOCABULARY_FILE, *(f"{split}.parquet" for split in SPLITS))
        refuse_existing((out / name for name in written), "add --replace, or choose another --out")
    with AtomicFiles(out) as files:
        names = _names(sources)
        splits = [options.only] * len(names)
        if not options.only:
            splits = split_documents(names, options.validation, options.test, options.seed)
        if vocabulary is None:
            vocabulary = Vocabulary.build(
                _texts(sources, splits, progress), options.vocabulary_size, options.entities
            )
        finder = finder or CapitalFinder(vocabulary)
        documents = _documents(sources, splits, finder, options, progress)
        tallies = _write(documents, {split: splits.count(split) for split in SPLITS}, files)
        if not any(tally["documents"] for tally in tallies.values()):
            raise FormatError.expected(", ".join(map(str, sources)), "text with names to ask for", "none")
        about = {
            "sources": [Path(source).name for source in sources],
            "options": asdict(options),
            "vocabulary": vocabulary.fingerprint,
            "splits": {split: _summary(tally) for split, tally in tallies.items()},
        }
        files.path(VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        files.path(ABOUT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    if not options.only:
        _warn_of_empty_splits(options, tallies)
    return about


def _names(sources: Sequence[str | Path]) -> list[str]:
    """The names of all documents; a file that cannot be read is left out with a warning."""
    bad: list[AttarError] = []
    names = [document.name for document in read_sources(sources, bad.append)]
    if bad and not names:
        raise bad[0]
    for fault in bad:
        logging.getLogger("attar").warning("attar: left out: %s", fault)
    return names


def _ignore(fault: AttarError) -> None:
    """The first pass has warned of it."""


def _write(
    documents: Iterator[tuple[str, ClozeDocument]], sources: Mapping[str, int], files: AtomicFiles
) -> dict[str, Counter[str]]:
    """Write the splits that have sources, and count; remove the other splits of an earlier build."""
    tallies = {split: Counter(sources=count) for split, count in sources.items() if count}
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            if split in tallies:
                path = files.path(f"{split}.parquet")
                writers[split] = stack.enter_context(DocumentWriter(path))
            else:
                files.remove(f"{split}.parquet")
        for split, document in documents:
            writers[split].write(document)
            tallies[split].update(
                documents=1,
                questions=len(document.questions),
                tokens=sum(map(len, document.sentences)),
                names=len(count_names(document.sentences)),
            )
    return tallies


def _summary(tally: Counter[str]) -> dict[str, Any]:
    documents = max(tally["documents"], 1)
    return {name: tally[name] for name in ("sources", "documents", "questions")} | {
        "tokens_per_document": round(tally["tokens"] / documents, 1),
        "names_per_document": round(tally["names"] / documents, 2),
    }


def _warn_of_empty_splits(options: BuildOptions, tallies: Mapping[str, Counter[str]]) -> None:
    wanted = {"training": "", "validation": options.validation, "test": options.test}
    for split, rule in wanted.items():
        if _share(rule) != 0 and not (split in tallies and tallies[split]["documents"]):
            texts = sum(tally["sources"] for tally in tallies.values())
            noun = "text" if texts == 1 else "texts"
            logging.getLogger("attar").warning(
                "attar: nothing for %s in %d %s; give more texts", split, texts, noun
            )


def _texts(sources: Sequence[str | Path], splits: Sequence[str], progress: Progress) -> Iterator[str]:
    """Yield the texts to count words in."""
    every = SPLITS[0] not in splits
    for at, document in enumerate(read_sources(sources, _ignore)):
        progress("counting words", at, len(splits))
        if every or splits[at] == SPLITS[0]:
            yield document.text


def _documents(
    sources: Sequence[str | Path],
    splits: Sequence[str],
    finder: NameFinder,
    options: BuildOptions,
    progress: Progress,
) -> Iterator[tuple[str, ClozeDocument]]:
    """Yield all windows with their splits, except those without a possible question."""
    for at, source in enumerate(read_sources(sources, _ignore)):
        progress("building", at, len(splits))
        for whole, rng in _read_windows(source, finder, options.window, options.entities, options.seed):
            drawn = draw_questions(whole, rng, options.questions)
            if drawn.questions and len(count_names(drawn.sentences)) > 1:
                yield splits[at], whole if splits[at] == SPLITS[0] else drawn


def _cut_windows(sentences: Sequence[list[str]], size: int) -> Iterator[list[list[str]]]:
    """Cut at sentence ends into windows of about `size` tokens, all of similar length.

    >>> [sum(map(len, window)) for window in _cut_windows([["a"] * 5] * 9, 20)]
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


def renumber_names(
    marked: Iterable[Sequence[str]], table: NameTable, order: Sequence[int]
) -> tuple[list[list[str]], dict[int, str]]:
    """Replace `@entityN` with `@entity{order[N]}` and lower-case other words; return names by new number too."""
    renamed = {f"@entity{old}": f"@entity{new}" for old, new in enumerate(order)}
    sentences = [[renamed.get(token) or token.lower() for token in sentence] for sentence in marked]
    return sentences, dict(sorted((order[old], name) for old, name in enumerate(table.names)))


def _read_windows(
    document: SourceDocument, finder: NameFinder, size: int, entities: int, seed: int
) -> Iterator[tuple[ClozeDocument, np.random.Generator]]:
    """Yield a text's windows, their names numbered in random order, each with its random generator."""
    for number, window in enumerate(_cut_windows(list(iterate_sentences(document.text)), size)):
        name = f"{document.name}#{number}"
        # Seeded by name, so that a document's result does not depend on the documents before it.
        rng = np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "replace"))])
        table = NameTable(entities)
        marked = list(mark_names(window, table, finder))
        sentences, names = renumber_names(marked, table, rng.permutation(len(table)).tolist())
        yield ClozeDocument(name, document.source, sentences, names), rng


def split_documents(names: Sequence[str], validation: str, test: str, seed: int) -> list[str]:
    """Assign documents to splits by a share (`0.08`), a rule on the index (`i%20==0`), or a file of names.

    Shares are drawn from the sorted names, so that the order and packing of the sources do not matter.

    >>> split_documents(["a", "b", "c", "d"], "i%2==1", "0.25", seed=0)
    ['training', 'validation', 'test', 'validation']
    """
    splits = [""] * len(names)
    rules = (("validation", validation), ("test", test))
    shares = {split: share for split, rule in rules if (share := _share(rule)) is not None}
    if sum(shares.values()) >= 1:
        expected = "shares that leave documents for training"
        raise OptionError.expected("validation and test", expected, f"{validation} and {test}")
    for split, rule in rules:
        if split not in shares:
            for at in _listed(names, rule, split):
                if splits[at]:  # a leak from one split into another
                    raise OptionError.expected("validation and test", "no document in both", repr(names[at]))
                splits[at] = split
    order = sorted((at for at, split in enumerate(splits) if not split), key=lambda at: (names[at], at))
    # Published splits of these corpora are given by the permutation of this older generator.
    drawn = [order[place] for place in np.random.RandomState(seed).permutation(len(order))]
    done = 0
    for split, share in shares.items():
        number = max(round(share * len(names)), 1 if share > 0 and len(drawn) >= 3 else 0)
        for at in drawn[done : done + number]:
            splits[at] = split
        done += number
    return [split or SPLITS[0] for split in splits]


def _share(rule: str) -> float | None:
    """Return the share if a rule is one, None for another kind of rule.

    >>> _share("0.08"), _share("i%20==0")
    (0.08, None)
    """
    try:
        share = float(rule)
    except ValueError:
        return None
    if not 0 <= share < 1:
        raise OptionError.expected("share of documents", "a number from 0 to below 1", rule)
    return share


def _listed(names: Sequence[str], rule: str, split: str) -> list[int]:
    match = _RULE.fullmatch(rule.strip())
    if match:
        every, rest = int(match[1]), int(match[2])
        if rest >= every:
            raise OptionError.expected(split, "i%N==R with R below N", rule)
        return [at for at in range(len(names)) if at % every == rest]
    wanted = _read_list(rule, split)
    keys = [
        {name, name.rsplit("/", 1)[-1], name + ".txt", name.rsplit("/", 1)[-1] + ".txt"} for name in names
    ]
    missing = wanted - set().union(*keys)
    if missing:
        raise OptionError.expected(
            rule, "names of documents", f"{len(missing)} unknown ones such as {min(missing)!r}"
        )
    return [at for at, key in enumerate(keys) if key & wanted]


def _read_list(rule: str, split: str) -> set[str]:
    try:
        if not Path(rule).is_file():
            expected = "a share such as 0.08, a rule such as i%20==0, or a file of names"
            raise OptionError.expected(split, expected, repr(rule))
        lines = Path(rule).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        came = f"the byte 0x{fault.object[fault.start]:02x} at {fault.start}"
        raise FormatError.expected(rule, "UTF-8 text", came, "convert it (iconv -t UTF-8)") from fault
    except OSError as fault:
        raise FormatError.expected(rule, "a file of names", fault.strerror or "an unreadable one") from fault
    return {line.strip() for line in lines if line.strip()}
