"""Cloze sets from plain text: documents are split, cut into windows, and sentences held out as questions.

At the end, a set of made-up stories, for a comparison in minutes.
"""

import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from attar.documents.extracted import SourceDocument
from attar.documents.workers import read_sources
from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_files, refuse_existing
from attar.paper.batches import QuestionDrawer
from attar.paper.cloze import ClozeDocument, count_names, document_writer
from attar.paper.options import SPLITS, BuildOptions
from attar.paper.sets import encode_split
from attar.paper.words import (
    PLACEHOLDER_TOKEN,
    VOCABULARY_FILE,
    CapitalFinder,
    FindNames,
    NameTable,
    Vocabulary,
    WordCounts,
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
    texts = _read_sources(sources)
    splits = split_documents([text.name for text in texts], options.validation, options.test, options.seed)
    counts = WordCounts(_sentences_to_count(texts, splits, progress))
    vocabulary = Vocabulary.build(counts)
    finder = CapitalFinder(counts.capitals, vocabulary.words)

    def documents() -> Iterator[tuple[str, ClozeDocument]]:
        for at, (text, split) in enumerate(zip(texts, splits, strict=True)):
            progress("building", at, len(texts))
            for document in _cloze_documents(text, finder.find, options, asked=split != SPLITS[0]):
                yield split, document

    with atomic_files(out) as path_of:
        tallies = _write(documents(), Counter(splits), path_of)
        if not any(tally["documents"] for tally in tallies.values()):
            raise FormatError(f"found no text with names to ask for in {', '.join(map(str, sources))}")
        about = {
            "sources": [Path(source).name for source in sources],
            "options": asdict(options),
            "vocabulary": vocabulary.fingerprint,
            "splits": {split: _summary(tally) for split, tally in tallies.items()},
        }
        path_of(VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        path_of(ABOUT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    for split in set(SPLITS) - set(tallies):  # of an earlier build
        (out / f"{split}.parquet").unlink(missing_ok=True)
    return about


def _read_sources(sources: Sequence[str | Path]) -> list[SourceDocument]:
    """All documents; a file that cannot be read is left out with a warning."""
    bad: list[AttarError] = []
    texts = [*read_sources(sources, bad.append)]
    if bad and not texts:
        raise bad[0]
    for fault in bad:
        logging.getLogger("attar").warning("attar: left out: %s", fault)
    return texts


def _sentences_to_count(
    texts: Sequence[SourceDocument], splits: Sequence[str], progress: Progress
) -> Iterator[list[str]]:
    every = SPLITS[0] not in splits
    for at, (text, split) in enumerate(zip(texts, splits, strict=True)):
        progress("counting words", at, len(texts))
        if every or split == SPLITS[0]:
            yield from iterate_sentences(text.text)


def _cloze_documents(
    text: SourceDocument, find: FindNames, options: BuildOptions, *, asked: bool
) -> Iterator[ClozeDocument]:
    """A text's windows that have a possible question, whole, or `asked`: with questions held out."""
    # Seeded by name, so that a text's questions do not depend on the texts before it.
    rng = np.random.default_rng([options.seed, zlib.crc32(text.name.encode("utf-8", "replace"))])
    windows = []
    for number, window in enumerate(_cut_windows(list(iterate_sentences(text.text)), options.window)):
        sentences, names = number_names(window, find, rng)
        windows.append(
            ClozeDocument(f"{text.name}#{number}", text.source, sentences, [*names], [*names.values()])
        )
    for whole, reduced in zip(windows, draw_questions(windows, rng, options.questions), strict=True):
        if reduced.questions and len(count_names(reduced.sentences)) > 1:
            yield reduced if asked else whole


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
    sentences: Iterable[Sequence[str]], find: FindNames, rng: np.random.Generator
) -> tuple[list[str], dict[int, str]]:
    """The sentences in lower case with `@entityN` for names, and the names by N: numbers in random order."""
    table = NameTable()
    marked = list(mark_names(sentences, table, find))
    order = rng.permutation(len(table.names)).tolist()
    renamed = {f"@entity{old}": f"@entity{new}" for old, new in enumerate(order)}
    lowered = [" ".join(renamed.get(token) or token.lower() for token in sentence) for sentence in marked]
    return lowered, dict(sorted(zip(order, table.names, strict=True)))


def draw_questions(
    documents: Sequence[ClozeDocument], rng: np.random.Generator, count: int
) -> list[ClozeDocument]:
    """Hold sentences out of documents as their questions, at most `count` each."""
    split = encode_split(documents, Vocabulary((), entities=10_000))
    drawn = QuestionDrawer(split).draw(rng, count)
    asked = [
        msgspec.structs.replace(document, sentences=[], questions=[], answers=[]) for document in documents
    ]
    blanks = dict(zip(drawn.sentences.tolist(), drawn.blanks.tolist(), strict=True))
    sentences = ((at, sentence) for at, document in enumerate(documents) for sentence in document.sentences)
    for number, (at, sentence) in enumerate(sentences):
        if number not in blanks:
            asked[at].sentences.append(sentence)
            continue
        tokens, place = sentence.split(), blanks[number] - int(split.sentence_starts[number])
        asked[at].answers.append(int(tokens[place].removeprefix("@entity")))
        tokens[place] = PLACEHOLDER_TOKEN
        asked[at].questions.append(" ".join(tokens))
    return asked


def _write(
    documents: Iterator[tuple[str, ClozeDocument]], sources: Mapping[str, int], path_of: Callable[[str], Path]
) -> dict[str, Counter[str]]:
    """Write the splits that have sources, and count."""
    tallies = {split: Counter(sources=sources[split]) for split in SPLITS if sources[split]}
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(document_writer(path_of(f"{split}.parquet"))) for split in tallies
        }
        for split, document in documents:
            writers[split](document)
            tallies[split].update(
                documents=1,
                questions=len(document.questions),
                tokens=sum(len(sentence.split()) for sentence in document.sentences),
                names=len(count_names(document.sentences)),
            )
    return tallies


def _summary(tally: Counter[str]) -> dict[str, Any]:
    documents = max(tally["documents"], 1)
    return {name: tally[name] for name in ("sources", "documents", "questions")} | {
        "tokens_per_document": round(tally["tokens"] / documents, 1),
        "names_per_document": round(tally["names"] / documents, 2),
    }


def split_documents(names: Sequence[str], validation: str, test: str, seed: int) -> list[str]:
    """Assign documents to splits by a share (`0.08`), or by a rule on the index (`i%20==0`).

    Shares are drawn from the sorted names, so that the order and packing of the sources do not matter.

    >>> split_documents(["a", "b", "c", "d"], "i%2==1", "0.25", seed=0)
    ['training', 'validation', 'test', 'validation']
    """
    splits = [""] * len(names)
    rules = {"validation": validation, "test": test}
    shares = {split: share for split, rule in rules.items() if (share := _share(rule)) is not None}
    if sum(shares.values()) >= 1:
        expected = "shares that leave documents for training"
        raise OptionError.expected("validation and test", expected, f"{validation} and {test}")
    for split in rules.keys() - shares.keys():
        match = _RULE.fullmatch(rules[split].strip())
        if not match or int(match[2]) >= int(match[1]):
            expected = "a share such as 0.08, or a rule i%N==R with R below N"
            raise OptionError.expected(split, expected, repr(rules[split]))
        for at in range(int(match[2]), len(names), int(match[1])):
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


# How a fact is told, and how it is asked.
_RELATIONS = (
    ("{a} and {b} were wed in a small chapel .", "{a} married {b} ."),
    ("every morning {a} takes the bus to {b} .", "{a} works in {b} ."),
    ("{a} rents a blue house near the market of {b} .", "{a} lives in {b} ."),
    ("{a} gave {b} lessons without pay .", "{a} taught {b} ."),
    ("a court must decide what {b} owes {a} .", "{a} sued {b} ."),
    ("last week {a} spent three days in {b} .", "{a} visited {b} ."),
    ("the shop of {b} now belongs to {a} .", "{a} bought out {b} ."),
    ("{a} wrote a long letter to {b} .", "{a} has news for {b} ."),
)
_REMARKS = (
    "the weather stayed cold and dry .",
    "many readers wrote to ask for more .",
    "nobody was more surprised than {a} .",
    "friends say that {a} is happy .",
    "the old bridge will be closed for repairs .",
)
# Names in all stories; each story has a few of them, under numbers of its own.
NAMES = 12
# With these options of a comparison, an epoch of all of its runs takes about a minute on two cores.
SMALL = {"hidden_size": 48, "embedding_size": 48, "batch_size": 32, "lr": 1e-2}
_COUNTS = {"training": 3_000, "validation": 200, "test": 500}


def tell_story(rng: Random, name: str, facts: int) -> ClozeDocument:
    """A story with a question about each fact; two facts never answer the same question.

    >>> story = tell_story(Random(1), "a", facts=2)
    >>> story.sentences[0], story.questions[0], story.answers[0]
    ('@entity10 gave @entity2 lessons without pay .', '@placeholder taught @entity2 .', 10)
    """
    cast = rng.sample(range(NAMES), NAMES // 2 + 2)
    asked = {(relation, subject) for relation in _RELATIONS for subject in cast}
    sentences, questions, answers = [], [], []
    objects = {relation: rng.sample(cast, len(cast)) for relation in _RELATIONS}
    for relation, subject in rng.sample(sorted(asked), facts):
        # A name is the object of a relation once, so that the question for the subject has one answer, too.
        choice = next(each for each in objects[relation] if each != subject)
        objects[relation].remove(choice)
        marks = {"a": f"@entity{subject}", "b": f"@entity{choice}"}
        sentences.append(relation[0].format(**marks))
        if rng.random() < 0.4:
            sentences.append(rng.choice(_REMARKS).format(a=f"@entity{rng.choice(cast)}"))
        blank = rng.choice("ab")
        questions.append(relation[1].format(**marks | {blank: "@placeholder"}))
        answers.append(subject if blank == "a" else choice)
    return ClozeDocument(name, "stories", sentences, cast, [f"name {n}" for n in cast], questions, answers)


def write_stories(folder: Path) -> None:
    """Write a set of stories, always the same one."""
    with writing_to(folder, "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
    rng = Random(0)
    for split, count in _COUNTS.items():
        with document_writer(folder / f"{split}.parquet") as write:
            for number in range(count):
                write(tell_story(rng, f"{split} {number}", facts=8))
