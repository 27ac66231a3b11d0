"""An agent's notes as memories: what it is told, day by day, it can be asked about, and the notes are not kept.

A topic is a document of an `attar.Library`. A note is read on from where its topic ended; topics merge into a
briefing, by name; one that is closed is removed. All is on disk at every moment: another process asks the same.
The reader that answers is small, and guesses names only.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import typer
from rich.console import Console

import attar
from attar.bench.tables import print_table

DAYS = {
    "Monday": [
        ("falcon", "Maria Lopez runs the Falcon project. Maria works from Lisbon."),
        ("northwind", "Northwind wants the export by Friday. Karen Holt called for Northwind."),
        ("party", "Tom Reed plans the party. Tom asked Joan Bell for music."),
    ],
    "Tuesday": [
        ("falcon", "Ivan Petrov writes the parser. Ivan asked Maria for two more weeks."),
        ("northwind", "Karen Holt said that the export is slow. Joan Bell promised Karen a new one."),
    ],
    "Wednesday": [("falcon", "Maria gave Ivan one week, and asked Joan Bell to help him.")],
}
QUESTIONS = [
    ("falcon", "Who asked Maria for two more weeks?"),
    ("falcon", "Maria asked ___ to help Ivan ."),
    ("northwind", "___ called for Northwind ."),
    ("northwind", "Who promised Karen a new export?"),
]
TO_BE_BRIEFED = "Maria asked ___ to help Ivan ."


def take_down(notes: attar.Library, topic: str, note: str) -> None:
    """Read a note into its topic, which may be new; a topic's memory is all that stays of it."""
    if topic in notes:
        notes.append(topic, note)
    else:
        notes.add(topic, note)


def answers(notes: attar.Library, topic: str, question: str) -> str:
    """The likeliest names, best first."""
    found = notes.ask(topic, question, top=3)
    return ", ".join(f"{answer.text} {answer.probability:.0%}" for answer in found)


def spend_the_week(notes: attar.Library) -> None:
    """Take notes, answer from them, make a briefing, close a topic."""
    for day, told in DAYS.items():
        for topic, note in told:
            take_down(notes, topic, note)
        print(
            f"{day}, notes taken: {len(told)}; topics: {', '.join(each.name for each in notes.documents())}"
        )
    print()
    rows = [[topic, question, answers(notes, topic, question)] for topic, question in QUESTIONS]
    print_table(Console(), ["topic", "question", "answers"], rows)
    notes.merge("briefing", ["falcon", "northwind"], replace=True)
    notes.remove("party")
    print("\nfalcon and northwind merged into briefing, party removed:\n")
    rows = [[each.name, str(each.tokens), str(each.bytes)] for each in notes.documents()]
    print_table(Console(), ["topic", "tokens", "bytes on disk"], rows)
    print(f"\nThe briefing: {TO_BE_BRIEFED} {answers(notes, 'briefing', TO_BE_BRIEFED)}")


def main(folder: Path | None = None, topic: str = "briefing", ask: str = "") -> None:
    """Keep a week's notes in FOLDER (or one that is deleted afterwards); with --ask, only ask about a topic."""
    if ask and folder:
        with attar.Library(folder, create=False, read_only=True) as notes:
            print(answers(notes, topic, ask))
        return
    with tempfile.TemporaryDirectory() as passing:
        kept = folder or Path(passing) / "notes"
        with attar.Library(kept) as notes:
            spend_the_week(notes)
        again = [sys.executable, __file__, "--folder", str(kept), "--ask", TO_BE_BRIEFED]
        answer = subprocess.run(again, capture_output=True, text=True, check=True).stdout
        print(f"Asked again in another process: {answer.strip()}")


if __name__ == "__main__":
    typer.run(main)
