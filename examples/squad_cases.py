"""How well the names reader answers real questions: a table of cases that are selected by a fixed rule.

The text is the first eight paragraphs of each article of a SQuAD 2.0 file. The question is the article's first one
that begins with who, which, what or where and whose answer is a name in the text. Articles without one are skipped.
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
    """The articles of a SQuAD file, compressed with xz or not."""
    data = file.read_bytes()
    loaded: list[dict[str, Any]] = json.loads(lzma.decompress(data) if file.suffix == ".xz" else data)["data"]
    return loaded


def questions(article: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a question that begins as in ASKED and its answer."""
    for paragraph in article["paragraphs"][:PARAGRAPHS]:
        for pair in paragraph["qas"]:
            if pair["question"].lower().startswith(ASKED) and not pair["is_impossible"]:
                yield pair["question"], pair["answers"][0]["text"]


def case_of(reader: attar.Reader, article: dict[str, Any]) -> tuple[bool, str] | None:
    """Whether the reader is right, and a row of the table; None if no question can be used."""
    text = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"][:PARAGRAPHS])
    memory = reader.read(text)
    names = {name.lower() for name in memory.names.names}
    for question, answer in questions(article):
        if answer.lower() not in names:
            continue
        try:
            best = reader.answer(memory, question, top=TOP)
        except attar.AttarError:  # not a question that this reader can answer
            continue
        right = best[0].text.lower() == answer.lower()
        answers = ", ".join(f"{each.text} ({each.probability:.2f})" for each in best)
        facts = (article["title"].replace("_", " "), memory.tokens, len(names), question, answer, answers)
        return right, f"| {' | '.join(map(str, facts))} | {'right' if right else 'wrong'} |"
    return None


def main(
    file: Annotated[Path, typer.Argument(help="A SQuAD 2.0 file, .json or .json.xz.")],
    count: Annotated[int, typer.Option(min=1, help="Number of cases.")] = 10,
    reader: Annotated[
        str, typer.Option(help="A names reader: its folder, or names for the one shipped.")
    ] = "names",
) -> None:
    """Print cases of a SQuAD file, and how many answers are right."""
    loaded, right = attar.Reader.load(reader), []
    print(f"| article | tokens | names | question | answer | the reader's first {TOP} | |")
    print("|---" * 7 + "|")
    for article in articles(file):
        case = case_of(loaded, article)
        if case is not None:
            right.append(case[0])
            print(case[1])
        if len(right) == count:
            break
    print(f"\n{sum(right)} of {len(right)} right")


if __name__ == "__main__":
    typer.run(main)
