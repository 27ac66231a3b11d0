"""`attar cloze …`: sets of cloze questions, built and looked at."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from attar.cloze import ClozeDocument
    from attar.text import NameFinder

app = typer.Typer(help="Build and look at sets of cloze questions.", no_args_is_help=True)


@app.command()
def build(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE…", help='.txt, .jsonl with "text", folders; .xz and .tar.xz as they are.'
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    window: Annotated[int, typer.Option(help="Tokens a document, about.")] = 900,
    questions: Annotated[
        int, typer.Option(help="Questions a document, at most, in validation and test.")
    ] = 5,
    validation: Annotated[
        str, typer.Option(help="A share (0.08), a rule (i%20==0) or a file of names.")
    ] = "0.08",
    test: Annotated[str, typer.Option(help="The same for the test.")] = "0.08",
    only: Annotated[str, typer.Option(help="Put all documents into this one split.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same set.")] = 0,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json to find names with; counted from the text otherwise."),
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Words in the vocabulary that is counted.")] = 20_000,
    spacy: Annotated[
        bool, typer.Option("--spacy", help="Find names with spaCy instead of by capitals.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Make cloze questions from plain English text.

    attar cloze build novels.tar.xz --out novels
    """
    from attar.cloze import BuildOptions, build_set
    from attar.text import ENTITIES, Vocabulary

    finder: NameFinder | None = None
    if spacy:
        from attar.text import SpacyFinder

        finder = SpacyFinder()
    known = Vocabulary.load(vocabulary) if vocabulary else None
    entities = known.entities if known else ENTITIES
    options = BuildOptions(window, questions, validation, test, only, seed, size, entities)
    with progress_bar() as progress:
        about = build_set(sources, out, options, vocabulary=known, finder=finder, progress=progress)
    if as_json:
        print(json.dumps(about))
        return
    for split, row in about["splits"].items():
        print(
            f"{split}: {row['documents']:,} documents from {row['sources']:,} texts, "
            f"{row['questions']:,} questions, {row['names_a_document']} names a document"
        )


@app.command()
def show(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A set built here, or the CNN set's own folder.")
    ],
    split: Annotated[
        str, typer.Option(help="training, validation or test; the last there is otherwise.")
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="How many documents.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Which questions are drawn of training documents.")] = 0,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Leave malformed .question files out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the documents as JSON.")] = False,
) -> None:
    """Print a few documents with their questions, names in colour."""
    from dataclasses import asdict
    from itertools import islice

    import numpy as np

    from attar.cloze import ClozeSet, draw_questions

    def skip(fault: Exception) -> None:
        typer.echo(f"attar: left out {fault}", err=True)

    found = ClozeSet.open(folder)
    with progress_bar() as progress:
        documents = found.documents(
            split or found.splits[-1], on_malformed=skip if skip_malformed else None, progress=progress
        )
        first = list(islice(documents, count))
    rng = np.random.default_rng(seed)
    shown = [document if document.questions else draw_questions(document, rng, 5) for document in first]
    if as_json:
        print(json.dumps({"documents": [asdict(document) for document in shown]}))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for document in shown:
        console.print(colour(document), soft_wrap=True)


def colour(document: "ClozeDocument") -> "Text":
    """Lay a document out for the terminal: names in colour with their numbers, then questions and answers."""
    from rich.text import Text

    from attar.cloze import entity_number

    def write(tokens: list[str]) -> None:
        for token in tokens:
            entity = entity_number(token)
            if entity is not None:
                page.append(f"{document.names.get(entity, '?')}", style=f"color({entity % 6 + 1})")
                page.append(f"/{entity} ", style="dim")
            else:
                page.append(token + " ", style="bold reverse" if token == "@placeholder" else "")
        page.append("\n")

    page = Text(f"{document.name} ({document.source})\n", style="bold")
    page = Text.assemble(page)
    for sentence in document.sentences:
        write(sentence)
    for question in document.questions:
        page.append("? ", style="bold")
        write(list(question.tokens))
        page.append("= ", style="bold")
        write([f"@entity{question.answer}"])
    return page


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show how far work is, on stderr and in a terminal only, once it has taken two seconds."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    began = monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}

    def tell(what: str, done: int, total: int) -> None:
        if monotonic() - began > 2 and bar.console.is_terminal:
            bar.start()
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done + 1, total=total)

    try:
        yield tell
    finally:
        if bar.live.is_started:  # else its end would be an empty line
            bar.stop()
