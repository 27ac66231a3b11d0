"""`attar cloze build|show`: sets of cloze questions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli.options import AsJson, SkipMalformed, options_from
from attar.cli.output import print_json, printable, progress_bar
from attar.cloze.options import BuildOptions

if TYPE_CHECKING:
    from rich.text import Text

    from attar.cloze.documents import ClozeDocument

app = typer.Typer(help="Build and show sets of cloze questions.", no_args_is_help=True)


@app.command()
@options_from(BuildOptions)
def build(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE…",
            help="Files of any kind that `attar add` reads, and folders of these.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    vocabulary: Annotated[
        Path | None, typer.Option(help="tokenizer.json to find names with; default: built from the texts.")
    ] = None,
    spacy: Annotated[
        bool, typer.Option("--spacy", help="Find names with spaCy instead of by capitals.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a set that is in the folder already.")
    ] = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Build a set of cloze questions from plain English text.

    attar cloze build novels.tar.xz --out novels
    """
    from attar.cloze.build import build_set
    from attar.text.names import SpacyFinder
    from attar.text.vocabulary import Vocabulary

    known = Vocabulary.load(vocabulary) if vocabulary else None
    options = BuildOptions(**given | ({"entities": known.entities} if known else {}))
    finder = SpacyFinder() if spacy else None
    with progress_bar() as progress:
        about = build_set(
            sources, out, options, vocabulary=known, finder=finder, replace=replace, progress=progress
        )
    if as_json:
        print_json(about)
        return
    for split, row in about["splits"].items():
        print(
            f"{split}: {row['documents']:,} documents from {row['sources']:,} texts, "
            f"{row['questions']:,} questions, {row['names_per_document']} names per document"
        )


@app.command()
def show(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a set that attar built, or of the CNN set.")
    ],
    split: Annotated[
        str, typer.Option(help="training, validation or test; default: the last one of the set.")
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 3,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the questions drawn from training documents.")
    ] = 0,
    skip_malformed: SkipMalformed = False,
    as_json: AsJson = False,
) -> None:
    """Print some documents with their questions, names in colour."""
    from dataclasses import asdict
    from itertools import islice

    import numpy as np

    from attar.cloze.questions import draw_questions
    from attar.cloze.sets import ClozeSet

    def skip(fault: Exception) -> None:
        typer.echo(f"attar: skipped {printable(str(fault))}", err=True)

    found = ClozeSet.open(folder)
    with progress_bar() as progress:
        documents = found.documents(
            split or found.splits[-1], on_malformed=skip if skip_malformed else None, progress=progress
        )
        first = list(islice(documents, count))
    rng = np.random.default_rng(seed)
    shown = [document if document.questions else draw_questions(document, rng, 5) for document in first]
    if as_json:
        print_json({"documents": [asdict(document) for document in shown]})
        return
    from rich.console import Console

    console = Console(highlight=False)
    for document in shown:
        console.print(_coloured(document), soft_wrap=True)


def _coloured(document: "ClozeDocument") -> "Text":
    """A document for the terminal: names in colour with their numbers, then questions and answers."""
    from rich.text import Text

    from attar.cloze.documents import entity_number

    def write(tokens: list[str]) -> None:
        for token in tokens:
            entity = entity_number(token)
            if entity is not None:
                page.append(printable(document.names.get(entity, "?")), style=f"color({entity % 6 + 1})")
                page.append(f"/{entity} ", style="dim")
            else:
                page.append(printable(token) + " ", style="bold reverse" if token == "@placeholder" else "")
        page.append("\n")

    page = Text(f"{printable(document.name)} ({printable(document.source)})\n", style="bold")
    page = Text.assemble(page)
    for sentence in document.sentences:
        write(sentence)
    for question in document.questions:
        page.append("? ", style="bold")
        write(list(question.tokens))
        page.append("= ", style="bold")
        write([f"@entity{question.answer}"])
    return page
