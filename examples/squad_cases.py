"""How a reader does on real questions: cases chosen by a rule before they are asked, as a table.

Of each article of a SQuAD 2.0 file, in their order, the first eight paragraphs are the text, and the first who-,
which-, what- or where-question whose answer is one of the names found is asked. Articles without one are passed over.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import attar

PARAGRAPHS, TOP = 8, 3
ASKED = ("who", "which", "what", "where")


def articles(file: Path) -> list[dict[str, Any]]:
    """The articles of a SQuAD file, packed by xz or not."""
    data = file.read_bytes()
    found: list[dict[str, Any]] = json.loads(lzma.decompress(data) if file.suffix == ".xz" else data)["data"]
    return found


def questions(article: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """An article's questions that ask for something and have an answer, and the answers."""
    for paragraph in article["paragraphs"][:PARAGRAPHS]:
        for asked in paragraph["qas"]:
            if asked["question"].lower().startswith(ASKED) and not asked["is_impossible"]:
                yield asked["question"], asked["answers"][0]["text"]


def case_of(reader: attar.Reader, article: dict[str, Any]) -> tuple[bool, str] | None:
    """Whether the reader is right, and a line of the table; None where no question is of its kind."""
    text = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"][:PARAGRAPHS])
    memory = reader.read(text)
    names = {name.lower() for name in memory.names.names}
    for question, answer in questions(article):
        if answer.lower() not in names:
            continue
        try:
            best = reader.answer(memory, question, top=TOP)
        except attar.AttarError:  # it asks for nothing that can be blanked
            continue
        right = best[0].text.lower() == answer.lower()
        said = ", ".join(f"{each.name} ({each.probability:.2f})" for each in best)
        facts = (article["title"].replace("_", " "), memory.tokens, len(names), question, answer, said)
        return right, f"| {' | '.join(map(str, facts))} | {'right' if right else 'wrong'} |"
    return None


def main(
    file: Annotated[Path, typer.Argument(help="A SQuAD 2.0 file, .json or .json.xz.")],
    count: Annotated[int, typer.Option(min=1, help="Cases to show.")] = 10,
    reader: Annotated[
        Path | None, typer.Option(help="A reader's folder; the one in the package otherwise.")
    ] = None,
) -> None:
    """Print the first cases of a SQuAD file, and how many of them are right."""
    made, right = attar.Reader.load(reader), []
    print(f"| article | tokens | names | question | answer | the reader's first {TOP} | |")
    print("|---" * 7 + "|")
    for article in articles(file):
        found = case_of(made, article)
        if found is not None:
            right.append(found[0])
            print(found[1])
        if len(right) == count:
            break
    print(f"\n{sum(right)} of {len(right)} right")


if __name__ == "__main__":
    typer.run(main)
