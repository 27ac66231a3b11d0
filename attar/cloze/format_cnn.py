"""The CNN and Daily Mail sets' own format: one question a file, five blocks parted by blank lines."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attar.cloze.document import ENTITY_NUMBER, ClozeDocument, Question, entity_of
from attar.errors import FormatError
from attar.text import LONGEST, PLACEHOLDER

_BLOCKS = ("url", "document", "question", "answer", "names")
_NAME = re.compile(rf"@entity({ENTITY_NUMBER}):(.*)")
_NAME_LINE = "@entityN:Name, N from 0 to 9999 without leading zeros"
_ENDS = frozenset((".", "!", "?"))
_CLOSERS = frozenset(('"', "'", "''", ")", "]"))


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A `.question` file's blocks as they stand in it; `format_question` gives the same bytes again."""

    url: str
    document: str
    question: str
    answer: str
    names: tuple[tuple[int, str], ...]
    ending: str = ""


def parse_question(data: bytes, where: str) -> QuestionFile:
    r"""Read a `.question` file; a malformed one is named with its line.

    >>> parse_question(b"u\n\n@entity1 left .\n\n@placeholder left\n\n@entity1\n\n@entity1:Ann", "a").names
    ((1, 'Ann'),)
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise FormatError(
            f"{where}, line {line}", "UTF-8 text", f"the byte 0x{data[fault.start]:02x}"
        ) from fault
    body = text.rstrip("\n")
    blocks = body.split("\n\n")
    lines = [1]
    for block in blocks:
        lines.append(lines[-1] + block.count("\n") + 2)
    if len(blocks) != len(_BLOCKS):
        line = min(lines[min(len(blocks), len(_BLOCKS))], body.count("\n") + 1)
        expected = f"five blocks parted by blank lines ({', '.join(_BLOCKS)})"
        raise FormatError(f"{where}, line {line}", expected, f"{len(blocks) if body else 0} blocks")
    url, document, question, answer, names = blocks
    for number, block in enumerate(blocks[:4]):
        if not block.strip() or "\n" in block:
            raise FormatError(
                f"{where}, line {lines[number]}", f"the {_BLOCKS[number]} on one line", repr(block[:40])
            )
    if question.split().count(PLACEHOLDER) != 1:
        raise FormatError(
            f"{where}, line {lines[2]}", f"a question with one {PLACEHOLDER}", repr(question[:60])
        )
    found = _parse_names(names, where, lines[4])
    if entity_of(answer) not in dict(found):
        raise FormatError(
            f"{where}, line {lines[3]}", "an answer among the names below it", repr(answer[:40])
        )
    if answer not in document.split():  # no reader could choose it
        raise FormatError(f"{where}, line {lines[3]}", "an answer that the document holds", repr(answer[:40]))
    return QuestionFile(url, document, question, answer, found, text[len(body) :])


def _parse_names(block: str, where: str, first_line: int) -> tuple[tuple[int, str], ...]:
    found: list[tuple[int, str]] = []
    names: dict[int, str] = {}
    for line, text in enumerate(block.split("\n"), first_line):
        match = _NAME.fullmatch(text)
        if not match:
            raise FormatError(f"{where}, line {line}", _NAME_LINE, repr(text[:40]))
        number, name = int(match[1]), match[2]
        if names.setdefault(number, name) != name:
            other = repr(names[number][:40])
            raise FormatError(
                f"{where}, line {line}", f"one name for @entity{number}", f"{name[:40]!r} after {other}"
            )
        found.append((number, name))
    return tuple(found)


def format_question(file: QuestionFile) -> bytes:
    """Write a `.question` file."""
    names = "\n".join(f"@entity{number}:{name}" for number, name in file.names)
    return ("\n\n".join((file.url, file.document, file.question, file.answer, names)) + file.ending).encode()


def split_tokens(tokens: Sequence[str]) -> list[list[str]]:
    """Cut a document's tokens into sentences, since the format keeps them on one line.

    >>> split_tokens("he left . ' why ? ' nobody knew".split())
    [['he', 'left', '.'], ["'", 'why', '?', "'"], ['nobody', 'knew']]
    """
    sentences: list[list[str]] = []
    sentence: list[str] = []
    quoted = False
    for at, token in enumerate(tokens):
        sentence.append(token)
        quoted ^= token in ('"', "'")
        ended = token in _ENDS or (token in _CLOSERS and len(sentence) > 1 and sentence[-2] in _ENDS)
        closing = quoted and at + 1 < len(tokens) and tokens[at + 1] in _CLOSERS
        if (ended and not closing) or len(sentence) >= LONGEST:
            sentences.append(sentence)
            sentence = []
    return [*sentences, sentence] if sentence else sentences


def group_questions(files: Iterable[QuestionFile], source: str) -> ClozeDocument:
    """Make one document of the questions on it; their files hold the same document."""
    files = list(files)
    names: dict[int, str] = {}
    for file in files:
        names.update(file.names)
    questions = [Question(tuple(file.question.split()), int(file.answer[len("@entity") :])) for file in files]
    return ClozeDocument(files[0].url, source, split_tokens(files[0].document.split()), names, questions)


def ungroup_questions(document: ClozeDocument) -> list[QuestionFile]:
    """Make the files of a document, one a question."""
    text = " ".join(token for sentence in document.sentences for token in sentence)
    names = tuple(document.names.items())
    return [
        QuestionFile(document.name, text, " ".join(question.tokens), f"@entity{question.answer}", names)
        for question in document.questions
    ]
