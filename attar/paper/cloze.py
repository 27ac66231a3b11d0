"""Cloze documents and their questions: the Parquet files of built sets, and the CNN sets' `.question` files."""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from attar.errors import FormatError, MissingError, install_command
from attar.files import atomic_file
from attar.paper.words import PLACEHOLDER_TOKEN
from attar.progress import Progress, ignore_progress
from attar.text.sentences import LONGEST_SENTENCE

# At most 9999: a network has an embedding per number up to the highest. The CNN and Daily Mail sets use hundreds.
_NUMBER = "0|[1-9][0-9]{0,3}"
_MARK = re.compile(f"@entity({_NUMBER})")
_Number = Annotated[int, msgspec.Meta(ge=0, le=9999)]


class ClozeDocument(msgspec.Struct):
    """A document as a row of a Parquet file; nulls, other types and numbers out of range are refused.

    Tokens are separated by spaces. `@entityN` stands for the name that is listed at the place of N in `name_ids`. A
    question has one `@placeholder`, and its answer is the N of what that stands for.
    """

    name: str
    source: str
    sentences: list[str]
    name_ids: list[_Number]
    names: list[str]
    questions: list[str] = []
    answers: list[_Number] = []

    def __post_init__(self) -> None:
        if len(self.name_ids) != len(self.names) or len(self.questions) != len(self.answers):
            raise ValueError("as many names as ids, and as many answers as questions, were expected")


def entity_number(token: str) -> int | None:
    """N of `@entityN`, N from 0 to 9999, and None for any other token.

    >>> entity_number("@entity12"), entity_number("@entity"), entity_number("@entity007"), entity_number("house")
    (12, None, None, None)
    """
    mark = _MARK.fullmatch(token) if token.startswith("@") else None
    return int(mark[1]) if mark else None


def count_names(sentences: Iterable[str]) -> Counter[int]:
    """How often each name occurs, in order of first mention."""
    numbers = (entity_number(token) for sentence in sentences for token in sentence.split())
    return Counter(entity for entity in numbers if entity is not None)


COLUMNS = ClozeDocument.__struct_fields__
_ROWS = 512  # per batch of a Parquet file


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise MissingError("cloze sets need pyarrow", install_command("parquet")) from fault
    return pyarrow


@contextmanager
def document_writer(path: Path) -> Iterator[Callable[[ClozeDocument], None]]:
    """Write documents to a Parquet file, one row per document; the file appears when all are written."""
    pa = _pyarrow()
    kinds = {"name": pa.string(), "source": pa.string(), "name_ids": pa.list_(pa.int32())}
    kinds["answers"] = kinds["name_ids"]
    schema = pa.schema([(name, kinds.get(name, pa.list_(pa.string()))) for name in COLUMNS])
    rows: list[dict[str, Any]] = []
    with atomic_file(path) as partial, pa.parquet.ParquetWriter(partial, schema, compression="zstd") as file:

        def flush() -> None:
            file.write_table(pa.Table.from_pylist(rows, schema=schema))
            rows.clear()

        def write(document: ClozeDocument) -> None:
            rows.append(msgspec.structs.asdict(document))
            if len(rows) >= _ROWS:
                flush()

        yield write
        if rows:
            flush()


def read_documents(path: Path) -> Iterator[ClozeDocument]:
    """Yield the documents of a Parquet file, with a few hundred in memory at a time."""
    pa = _pyarrow()
    done = 0
    try:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=COLUMNS):
                for values in batch.to_pylist():
                    yield msgspec.convert(values, ClozeDocument)
                    done += 1
    except (pa.ArrowException, OSError, ValueError) as fault:  # msgspec's errors are ValueErrors
        reason = (str(fault).splitlines() or [""])[0][:200]
        message = f"{path}: document {done} is not one of a cloze set ({reason})"
        raise FormatError(message, "build the set again") from fault


_BLOCKS = ("url", "document", "question", "answer", "names")
_NAME = re.compile(rf"@entity({_NUMBER}):(.*)")
_ENDS = frozenset((".", "!", "?"))
_CLOSERS = frozenset(('"', "'", "''", ")", "]"))


def parse_question(data: bytes, where: str) -> ClozeDocument:
    r"""A `.question` file of five blocks: its document, all of it in one sentence, with the one question.

    >>> read = parse_question(b"u\n\n@entity1 left .\n\n@placeholder left\n\n@entity1\n\n@entity1:Ann", "a")
    >>> read.sentences, read.names, read.questions, read.answers
    (['@entity1 left .'], ['Ann'], ['@placeholder left'], [1])
    """

    def malformed(reason: str) -> FormatError:
        return FormatError(f"{where} is not a question of the CNN set: {reason}")

    try:
        url, document, question, answer, named = data.decode().rstrip("\n").split("\n\n")
    except ValueError as fault:  # not five blocks, or not UTF-8
        raise malformed(f"expected {', '.join(_BLOCKS)}, with blank lines between them") from fault
    rows = [_NAME.fullmatch(row) for row in named.split("\n")]
    pairs = {(int(row[1]), row[2]): None for row in rows if row}
    numbers = dict(pairs.keys())
    if None in rows or len(numbers) < len(pairs):
        raise malformed("expected names as @entityN:Name, each N from 0 to 9999 once")
    if question.split().count(PLACEHOLDER_TOKEN) != 1:
        raise malformed(f"expected a question with one {PLACEHOLDER_TOKEN}")
    number = entity_number(answer)
    if number not in numbers or answer not in document.split():  # no network can choose it
        raise malformed("expected an answer among the names, and in the document")
    return ClozeDocument(url, "", [document], [*numbers], [*numbers.values()], [question], [number])


def split_sentences(text: str) -> list[str]:
    """Cut a document into sentences: the format has it on one line.

    >>> split_sentences("he left . ' why ? ' nobody knew")
    ['he left .', "' why ? '", 'nobody knew']
    """
    sentences: list[str] = []
    sentence: list[str] = []
    tokens = text.split()
    quoted = False
    for at, token in enumerate(tokens):
        sentence.append(token)
        quoted ^= token in ('"', "'")
        ended = token in _ENDS or (token in _CLOSERS and len(sentence) > 1 and sentence[-2] in _ENDS)
        closing = quoted and at + 1 < len(tokens) and tokens[at + 1] in _CLOSERS
        if (ended and not closing) or len(sentence) >= LONGEST_SENTENCE:
            sentences.append(" ".join(sentence))
            sentence = []
    return [*sentences, " ".join(sentence)] if sentence else sentences


def read_folder(folder: Path, source: str, progress: Progress = ignore_progress) -> Iterator[ClozeDocument]:
    """Yield a folder's documents with all of their questions; malformed files are left out with a warning.

    The questions of a document are anywhere in the folder, so all its files are read before the first document.
    """
    files = sorted(folder.glob("*.question"))
    documents: dict[bytes, ClozeDocument] = {}
    for done, path in enumerate(files):
        progress("reading questions", done, len(files))
        try:
            read = parse_question(path.read_bytes(), str(path))
        except (OSError, FormatError) as fault:
            logging.getLogger("attar").warning("attar: left out: %s", fault)
            continue
        # Equal texts whose ids mean different names are different documents.
        names = sorted(zip(read.name_ids, read.names, strict=True))
        key = hashlib.sha256(f"{read.name}\n{read.sentences[0]}\n{names}".encode()).digest()
        document = documents.setdefault(key, read)
        if document is not read:
            document.questions += read.questions
            document.answers += read.answers
    if not documents:
        raise FormatError(f"there are no well-formed .question files in {folder}", "check the path")
    for document in documents.values():
        document.source, document.sentences = source, split_sentences(document.sentences[0])
        yield document
