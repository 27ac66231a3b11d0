"""`python -m benchmarks.everyday_files`: the questions about everyday documents, asked of their PDF, DOCX and so on.

Each document is written as a file of a kind, read again, and asked; the plain text is what the others are compared
with. The words that a file gives back are counted too.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.errors import OptionError
from attar.reader.reader import Reader
from attar.training.data import read_passages
from attar.training.evaluation import AskedDocument, evaluate_reader, group_documents
from benchmarks.command import ReaderFolder, run_command
from benchmarks.document_files import docx_of, eml_of, epub_of, html_of, pdf_of, read_here

QUESTIONS = Path(__file__).parent / "questions" / "everyday.json"
# The largest loss of exact match that is accepted, as a share of the answerable questions.
MOST_LOST = 0.03
KINDS: dict[str, Callable[[str], bytes]] = {
    "txt": str.encode,
    "pdf": lambda text: pdf_of([text]),
    "docx": docx_of,
    "eml": lambda text: eml_of(text, subject=text.split("\n")[0][:60]),
    "html": lambda text: html_of(text, around=True),
    "epub": lambda text: epub_of([text]),
}


def as_file(document: AskedDocument, kind: str) -> AskedDocument:
    """A document with the text that is read from its file."""
    (found,) = read_here(f"document.{kind}", KINDS[kind](document.text))
    return replace(document, text=found.text)


def recovered(text: str, given: str) -> float:
    """The share of the words of a text that another has, as often.

    >>> recovered("Ann left. Bob came.", "Ann left. Bob left.")
    0.75
    """
    wanted, got = (Counter(re.findall(r"\w+", each)) for each in (given, text))
    return (wanted & got).total() / max(1, wanted.total())


def main(
    kinds: Annotated[str, typer.Option(help=f"Some of {', '.join(KINDS)}; all by default.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Documents, at most; 0: all.")] = 0,
    reader: ReaderFolder = None,
) -> None:
    """Compare answers from files of other kinds with those from plain text; exit with code 1 if they lose more."""
    chosen = ["txt", *(kind for kind in (kinds.split(",") if kinds else KINDS) if kind != "txt")]
    if unknown := set(chosen) - KINDS.keys():
        raise OptionError.expected("--kinds", ", ".join(KINDS), ", ".join(sorted(unknown)))
    torch.set_num_threads(1)
    documents = group_documents(read_passages(QUESTIONS), 1)[: limit or None]
    loaded = Reader.load(reader)
    exact: dict[str, float] = {}
    print(f"{'kind':<6}{'words':>9}{'exact':>9}{'F1':>8}{'sentence':>10}")
    for kind in chosen:
        read = [as_file(document, kind) for document in documents]
        scores = evaluate_reader(loaded, read, name=kind)[-1].scores
        pairs = zip(read, documents, strict=True)
        words = min(recovered(own.text, given.text) for own, given in pairs)
        exact[kind] = scores.em or 0.0
        others = f"{scores.f1 or 0.0:>8.1%}{scores.sentence or 0.0:>10.1%}"
        print(f"{kind:<6}{words:>9.1%}{exact[kind]:>9.1%}{others}", flush=True)
    if min(exact.values()) < exact["txt"] - MOST_LOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
