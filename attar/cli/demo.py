"""`attar demo`: a library of two texts, read, asked, extended and merged; then what a question costs."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from rich.console import Console

from attar import ops
from attar.library.library import Library
from attar.paper.timing import Contender, Effort, Timer, aligned_table, quantity, relative_error

SIZE = 100  # the hidden size in the paper
QUESTIONS_PER_DOCUMENT = 4  # about as many as in the CNN set
LENGTHS = (100, 300, 750, 3_000, 10_000, 100_000)
COLUMNS = [
    "tokens n",
    "softmax, per question",
    "memory, per question",
    "faster",
    "H",
    "memory C",
    "error of C q",
]
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


def run_demo(lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Show a library at work, and what a question costs on this machine."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder, Library(Path(folder) / "papers") as library:
        show_library(console, library)
    console.print("\n[bold]What a question costs[/bold]\n")
    show_cost(lengths, effort)
    # As it can be typed: after `make demo` the shell does not know `attar`.
    attar = "attar" if shutil.which("attar") else sys.argv[0]
    print(
        f"\nYour own texts:  {attar} add library FILE-OR-FOLDER…"
        f"\nAsk them:        {attar} ask library 'Who …?'"
        f"\nIn a browser:    {attar} serve library, then http://127.0.0.1:8000",
    )


def show_library(console: Console, library: Library) -> None:
    """Add, ask, append, ask again, merge, remove."""
    console.print("[bold]Two texts become memories[/bold]\n")
    rows = []
    library.reader.answer(library.reader.read("Ann met Bob."), "Who met Bob?")  # load before timing
    for name, text in TEXTS.items():
        began = perf_counter()
        added = library.add(name, text)
        seconds = perf_counter() - began
        rows.append([name, str(added.tokens), quantity(added.bytes, "B"), quantity(seconds, "s")])
    print(aligned_table(["document", "tokens", "memory", "read and saved in"], rows))
    console.print(
        "\n[bold]Questions are answered from the memories; the texts are kept to quote from[/bold]\n"
    )
    for name, questions in QUESTIONS.items():
        _ask(library, name, questions)
    library.append("minutes", ADDED)
    console.print("\n[bold]The minutes continue: two sentences appended[/bold]\n")
    _ask(library, "minutes", QUESTIONS_AFTER)
    library.merge("both", list(TEXTS))
    console.print("\n[bold]Memories can be added: both texts in one[/bold]\n")
    _ask(library, "both", QUESTIONS_TO_BOTH)
    library.remove("letter")
    left = ", ".join(document.name for document in library.documents())
    print(f"\nRemoved letter; left are {left}.")
    print("docs/results.md says how often the reader is right on real questions.")


def _ask(library: Library, name: str, questions: Iterable[str]) -> None:
    """Print the best answer to each question with its quote, and the time it took."""
    for question in questions:
        began = perf_counter()
        (answer,) = library.ask(name, question, top=1)
        seconds = perf_counter() - began
        text = "not in this text" if answer.absent else answer.text
        print(
            f"{name}: {question}  {text}  ({answer.certainty} {answer.probability:.0%}, {quantity(seconds, 's')})",
        )
        if answer.quote:
            print(f"    “{' '.join(answer.quote.split())}”")


def show_cost(lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Print what a question costs as the document grows."""
    print(
        f"A random document, n states of size k = {SIZE}, becomes a memory C = HᵀH of {SIZE} × {SIZE}.\n"
        f"It gets {QUESTIONS_PER_DOCUMENT} questions, on one thread: softmax reads all of H for each, C q only C.\n",
    )
    torch.manual_seed(0)
    with Console(stderr=True).status("measuring …"):
        measured = [measure_question(n, effort or Effort(budget=0.6)) for n in lengths]
    print(aligned_table(COLUMNS, [cells for cells, *_ in measured]))
    (_, *first), (_, *last) = measured[0], measured[-1]
    softmax, memory = (after / before for before, after in zip(first, last, strict=True))
    print(
        f"\nFrom {lengths[0]:,} to {lengths[-1]:,} tokens a question became {softmax:.0f} times as expensive with "
        f"softmax, and {memory:.1f} times with a memory.\n"
        "Last column: the relative error against the same products in float64.",
    )


def measure_question(n: int, effort: Effort) -> tuple[list[str], float, float]:
    """Time softmax and a memory on one document of n tokens, interleaved: a row, and the seconds of both."""
    hidden = torch.randn(1, n, SIZE) / SIZE**0.5
    queries = torch.randn(1, QUESTIONS_PER_DOCUMENT, SIZE)
    memory = ops.encode(hidden)
    exact = ops.encode(hidden.double(), backend="reference" if n <= 1_000 else "auto")
    error = relative_error(ops.lookup(memory, queries), torch.einsum("bij,bmj->bmi", exact, queries.double()))
    contenders = [
        Contender("softmax", lambda: ops.softmax_lookup(hidden, queries)),
        Contender("memory", lambda: ops.lookup(memory, queries)),
    ]
    # One thread: on a busy machine waiting for a second one made softmax a hundred times slower.
    times = Timer(effort, threads=1).time(contenders)
    softmax, linear = (median(seconds) / QUESTIONS_PER_DOCUMENT for seconds in times)
    sizes = [quantity(softmax, "s"), quantity(linear, "s"), f"{softmax / linear:.1f} ×"]
    sizes += [quantity(hidden.nbytes, "B"), quantity(memory.nbytes, "B"), f"{error:.0e}"]
    return [f"{n:,}", *sizes], softmax, linear
