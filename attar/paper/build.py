"""Cloze sets from plain text: documents are split, cut into windows, and sentences held out as questions."""

import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from attar.documents.sources import SourceDocument, find_files, read_source_file
from attar.errors import AttarError, FormatError, OptionError
from attar.files import AtomicFiles, refuse_existing
from attar.paper.batches import QuestionDrawer
from attar.paper.cloze import ClozeDocument, Question, count_names, document_writer
from attar.paper.options import SPLITS, BuildOptions
from attar.paper.sets import encode_split
from attar.paper.vocabulary import (
    PLACEHOLDER_TOKEN,
    VOCABULARY_FILE,
    CapitalFinder,
    NameFinder,
    NameTable,
    Vocabulary,
    mark_names,
)
from attar.progress import Progress, ignore_progress
from attar.text.sentences import iterate_sentences

ABOUT_FILE = "set.json"
_RULE = re.compile(r"i\s*%\s*(\d{1,9})\s*==\s*(\d{1,9})")


def build_set(
    sources: Sequence[str | Path],
    out: Path,
    options: BuildOptions | None = None,
    *,
    replace: bool = False,
    progress: Progress = ignore_progress,
) -> dict[str, Any]:
    """Build a set from text files; training documents keep all sentences, the others get their questions here.

    The vocabulary is that of the training documents, or of all documents if there are none. A folder that has a set
    already is refused unless `replace`. Returns what `set.json` says.
    """
    options = options or BuildOptions()
    if not replace:
        written = (ABOUT_FILE, VOCABULARY_FILE, *(f"{split}.parquet" for split in SPLITS))
        refuse_existing((out / name for name in written), "add --replace, or choose another --out")
    with AtomicFiles(out) as files:
        names = _names(sources)
        splits = split_documents(names, options.validation, options.test, options.seed)
        texts = _sentences(sources, splits, progress)
        vocabulary = Vocabulary.build(texts, options.vocabulary_size, options.entities)
        documents = _documents(sources, splits, vocabulary, options, progress)
        tallies = _write(documents, Counter(splits), files)
        if not any(tally["documents"] for tally in tallies.values()):
            raise FormatError(f"found no text with names to ask for in {', '.join(map(str, sources))}")
        about = {
            "sources": [Path(source).name for source in sources],
            "options": asdict(options),
            "vocabulary": vocabulary.fingerprint,
            "splits": {split: _summary(tally) for split, tally in tallies.items()},
        }
        files.path(VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        files.path(ABOUT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    _warn_of_empty_splits(options, tallies)
    return about


def _names(sources: Sequence[str | Path]) -> list[str]:
    """The names of all documents; a file that cannot be read is left out with a warning."""
    bad: list[AttarError] = []
    names = [document.name for document in _read_sources(sources, bad.append)]
    if bad and not names:
        raise bad[0]
    for fault in bad:
        logging.getLogger("attar").warning("attar: left out: %s", fault)
    return names


def _read_sources(
    sources: Sequence[str | Path], on_bad: Callable[[AttarError], None]
) -> Iterator[SourceDocument]:
    for file in find_files(sources).files:
        yield from read_source_file(file, on_bad=on_bad)


def _ignore(fault: AttarError) -> None:
    """`_names` has warned of it."""


def _sentences(
    sources: Sequence[str | Path], splits: Sequence[str], progress: Progress
) -> Iterator[list[str]]:
    every = SPLITS[0] not in splits
    for at, document in enumerate(_read_sources(sources, _ignore)):
        progress("counting words", at, len(splits))
        if every or splits[at] == SPLITS[0]:
            yield from iterate_sentences(document.text)


def _documents(
    sources: Sequence[str | Path],
    splits: Sequence[str],
    vocabulary: Vocabulary,
    options: BuildOptions,
    progress: Progress,
) -> Iterator[tuple[str, ClozeDocument]]:
    """Yield all windows with their splits, except those without a possible question."""
    finder = CapitalFinder(vocabulary)
    for at, text in enumerate(_read_sources(sources, _ignore)):
        progress("building", at, len(splits))
        # Seeded by name, so that a text's questions do not depend on the texts before it.
        rng = np.random.default_rng([options.seed, zlib.crc32(text.name.encode("utf-8", "replace"))])
        windows = []
        for number, window in enumerate(_cut_windows(list(iterate_sentences(text.text)), options.window)):
            sentences, names = number_names(window, finder, rng, options.entities)
            windows.append(ClozeDocument(f"{text.name}#{number}", text.source, sentences, names))
        for whole, asked in zip(windows, draw_questions(windows, rng, options.questions), strict=True):
            if asked.questions and len(count_names(asked.sentences)) > 1:
                yield splits[at], whole if splits[at] == SPLITS[0] else asked


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


def number_names(
    sentences: Iterable[Sequence[str]], finder: NameFinder, rng: np.random.Generator, limit: int
) -> tuple[list[list[str]], dict[int, str]]:
    """The sentences in lower case with `@entityN` for names, and the names by N: numbers in random order."""
    table = NameTable(limit)
    marked = list(mark_names(sentences, table, finder))
    order = rng.permutation(len(table)).tolist()
    renamed = {f"@entity{old}": f"@entity{new}" for old, new in enumerate(order)}
    lowered = [[renamed.get(token) or token.lower() for token in sentence] for sentence in marked]
    return lowered, dict(sorted(zip(order, table.names, strict=True)))


def draw_questions(
    documents: Sequence[ClozeDocument], rng: np.random.Generator, count: int
) -> list[ClozeDocument]:
    """Hold sentences out of documents as their questions, at most `count` each."""
    split = encode_split(documents, Vocabulary((), entities=10_000))
    drawn = QuestionDrawer(split).draw(rng, count)
    asked = []
    for at, document in enumerate(documents):
        first_sentence = int(split.document_sentences[at])
        questions: dict[int, Question] = {}  # by the number of the sentence
        for q in range(*drawn.document_questions[at : at + 2].tolist()):
            number = int(drawn.sentences[q]) - first_sentence
            place = int(drawn.blanks[q] - split.sentence_starts[drawn.sentences[q]])
            tokens = document.sentences[number]
            held_out = (*tokens[:place], PLACEHOLDER_TOKEN, *tokens[place + 1 :])
            questions[number] = Question(held_out, int(tokens[place].removeprefix("@entity")))
        left = [tokens for number, tokens in enumerate(document.sentences) if number not in questions]
        asked.append(replace(document, sentences=left, questions=list(questions.values())))
    return asked


def _write(
    documents: Iterator[tuple[str, ClozeDocument]], sources: Mapping[str, int], files: AtomicFiles
) -> dict[str, Counter[str]]:
    """Write the splits that have sources, and count; remove the other splits of an earlier build."""
    tallies = {split: Counter(sources=sources[split]) for split in SPLITS if sources[split]}
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            if split in tallies:
                path = files.path(f"{split}.parquet")
                writers[split] = stack.enter_context(document_writer(path))
            else:
                files.remove(f"{split}.parquet")
        for split, document in documents:
            writers[split](document)
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
    for split, rule in (("validation", options.validation), ("test", options.test)):
        if _share(rule) != 0 and not (split in tallies and tallies[split]["documents"]):
            texts = sum(tally["sources"] for tally in tallies.values())
            noun = "text" if texts == 1 else "texts"
            logging.getLogger("attar").warning(
                "attar: nothing for %s in %d %s; give more texts", split, texts, noun
            )


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
                    raise OptionError(f"document {names[at]!r} is in both validation and test")
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
    """The share if a rule is one, None for another kind of rule.

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
        raise OptionError(
            f"{rule} names {len(missing)} documents that are not there, such as {min(missing)!r}"
        )
    return [at for at, key in enumerate(keys) if key & wanted]


def _read_list(rule: str, split: str) -> set[str]:
    try:
        if not Path(rule).is_file():
            expected = "a share such as 0.08, a rule such as i%20==0, or a file of names"
            raise OptionError.expected(split, expected, repr(rule))
        lines = Path(rule).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        raise FormatError(f"{rule} is not UTF-8 text", "convert it (iconv -t UTF-8)") from fault
    except OSError as fault:
        raise FormatError(f"cannot read {rule}: {fault.strerror or fault}") from fault
    return {line.strip() for line in lines if line.strip()}
