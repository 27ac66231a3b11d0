"""An agent's notes as memories: it answers questions about its notes, and quotes them.

A topic is a document of an `attar.Library`. A note is appended to its topic; topics are merged into a briefing;
a closed topic is removed. Every change is on disk at once, so another process gets the same answers.
A question whose answer is in no note is answered with "not in the notes".
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import typer
from tables import print_table

import attar

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
    ("falcon", "Who was asked to help Ivan?"),
    ("falcon", "How long did Maria give Ivan?"),
    ("northwind", "When does Northwind want the export?"),
    ("northwind", "What is wrong with the export?"),
    ("northwind", "What did the contract cost?"),
]
BRIEFING_QUESTION = "Who was asked to help Ivan?"


def add_note(notes: attar.Library, topic: str, note: str) -> None:
    """Add a note to its topic, which may be new."""
    if topic in notes:
        notes.append(topic, note)
    else:
        notes.add(topic, note)


def answer_to(notes: attar.Library, topic: str, question: str) -> str:
    """The most probable answer, and the sentence that it stands in."""
    (best,) = notes.ask(topic, question, top=1)
    return "not in the notes" if best.absent else f"{best.text} (“{best.quote}”)"


def run_week(notes: attar.Library) -> None:
    """Add notes, ask about them, merge topics into a briefing, remove a topic."""
    for day, day_notes in DAYS.items():
        for topic, note in day_notes:
            add_note(notes, topic, note)
        print(
            f"{day}, notes added: {len(day_notes)}; topics: {', '.join(each.name for each in notes.documents())}"
        )
    print()
    rows = [[topic, question, answer_to(notes, topic, question)] for topic, question in QUESTIONS]
    print_table(["topic", "question", "answer"], rows)
    notes.merge("briefing", ["falcon", "northwind"], replace=True)
    notes.remove("party")
    print("\nfalcon and northwind merged into briefing, party removed:\n")
    rows = [[each.name, str(each.tokens), str(each.bytes)] for each in notes.documents()]
    print_table(["topic", "tokens", "bytes on disk"], rows)
    print(f"\nThe briefing: {BRIEFING_QUESTION} {answer_to(notes, 'briefing', BRIEFING_QUESTION)}")


def main(folder: Path | None = None, topic: str = "briefing", ask: str = "") -> None:
    """Keep a week's notes in FOLDER (by default a temporary one); with --ask, only ask about a topic."""
    if ask and folder:
        with attar.Library(folder, create=False, read_only=True) as notes:
            print(answer_to(notes, topic, ask))
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = folder or Path(temporary) / "notes"
        with attar.Library(path) as notes:
            run_week(notes)
        again = [sys.executable, __file__, "--folder", str(path), "--ask", BRIEFING_QUESTION]
        answer = subprocess.run(again, capture_output=True, text=True, check=True).stdout
        print(f"Asked again in another process: {answer.strip()}")


if __name__ == "__main__":
    typer.run(main)
