"""`attar demo`: a library of two texts, read, asked, extended and merged."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from attar.cli.output import columns

if TYPE_CHECKING:
    from attar.library.library import Library

TEXTS = {
    "letter": """
Dear Martha,

thank you for your letter of 3 May. We arrived in Trieste on Tuesday after a journey of eleven hours. Our flat is on
the fourth floor of an old house in Via Rossetti, and the rent is 740 euros a month. The landlady, Signora Bassi, lives
downstairs and keeps two parrots. Paolo starts his work at the shipyard on Monday, and Nina goes to the school next to
the fish market.

Please send the winter coats before October, because the bora blows hard here. You can reach us on the telephone of
Signora Bassi.

With love, Ines""",
    "minutes": """
Minutes of the allotment society, 12 March.

Present were nine members. The chairman, Mr. Okafor, opened the meeting at 7:30 p.m. in the village hall. The treasurer
reported a balance of 2,310 pounds. It was agreed to buy a second water tank, because the old one leaks. Ms. Lindqvist
will ask three firms for offers. The hedge along Mill Lane will be cut by the council in September. The summer fair
takes place on 21 June, and Mr. Brandt will bring the tents.

The next meeting is on 9 April.""",
}
ADDED = """
Added on 2 April: the firm Calder Tanks won the order, and the new tank costs 890 pounds. It will be delivered on
17 April."""
# Each question with its answer: a test checks that the reader gives it. An empty one is not in the text.
QUESTIONS = {
    "letter": {
        "When did they arrive in Trieste?": "Tuesday",
        "How much is the rent?": "740 euros",
        "Why should the coats be sent before October?": "the bora blows hard here",
        "What is the capital of Norway?": "",
    },
    "minutes": {
        "Who is the chairman?": "Mr. Okafor",
        "Why do they buy a second water tank?": "the old one leaks",
        "What was the balance?": "2,310 pounds",
        "Which firm won the order?": "",
    },
}
QUESTIONS_AFTER = {
    "Which firm won the order?": "Calder Tanks",
    "When will the tank be delivered?": "17 April",
}
QUESTIONS_TO_BOTH = {
    "How long was the journey?": "eleven hours",
    "How much does the new tank cost?": "890 pounds",
}


def demo() -> None:
    """Show what Attar does, on two short texts."""
    from attar.library.library import Library

    with tempfile.TemporaryDirectory() as folder, Library(Path(folder) / "papers") as library:
        show_library(library)
    # As it can be typed: after `make demo` the shell does not know `attar`.
    attar = "attar" if shutil.which("attar") else sys.argv[0]
    print(f"\nYour own texts:  {attar} add library FILE-OR-FOLDER…")
    print(f"Ask them:        {attar} ask library 'Who …?'")
    print(f"In a browser:    {attar} serve library, then http://127.0.0.1:8000")
    print(f"What it costs:   {attar} bench")


def show_library(library: "Library") -> None:
    print("Two texts become memories\n")
    rows = [("document", "tokens", "memory", "read and saved in")]
    library.reader.answer(library.reader.read("Ann met Bob."), "Who met Bob?")  # load before timing
    for name, text in TEXTS.items():
        began = perf_counter()
        added = library.add(name, text)
        rows.append((name, f"{added.tokens:,}", f"{added.bytes:,} bytes", _ms(perf_counter() - began)))
    print(columns(rows))
    print("\nQuestions are answered from the memories; the texts are kept to quote from\n")
    for name, questions in QUESTIONS.items():
        _ask(library, name, questions)
    library.append("minutes", ADDED)
    print("\nThe minutes continue: two sentences appended\n")
    _ask(library, "minutes", QUESTIONS_AFTER)
    library.merge("both", list(TEXTS))
    print("\nMemories can be added: both texts in one\n")
    _ask(library, "both", QUESTIONS_TO_BOTH)
    library.remove("letter")
    left = ", ".join(document.name for document in library.documents())
    print(f"\nRemoved letter; left are {left}.")
    print("docs/results.md says how often the reader is right on real questions.")


def _ask(library: "Library", name: str, questions: Iterable[str]) -> None:
    """Print the best answer to each question with its quote, and the time it took."""
    for question in questions:
        began = perf_counter()
        (answer,) = library.ask(name, question, top=1)
        certainty = f"{answer.certainty} {answer.probability:.0%}, {_ms(perf_counter() - began)}"
        text = "not in this text" if answer.absent else answer.text
        print(f"{name}: {question}  {text}  ({certainty})")
        if answer.quote:
            print(f"    “{' '.join(answer.quote.split())}”")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"
