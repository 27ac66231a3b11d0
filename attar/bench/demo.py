"""`attar demo`: a library of two tales, read, asked, extended and merged; then what a question costs."""

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from rich.console import Console

from attar import ops
from attar.bench.comparison import relative_error
from attar.bench.cost import Contender, Effort, Timer
from attar.bench.report import print_plain, print_table, quantity
from attar.library import Library

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
TALES = {
    "harbour": """
Captain Marlow came back to Saltmere in the spring, when the ice had left the harbour. Nobody met him but Agnes
Pell, who kept the inn above the quay. Agnes gave him his old room, and asked him about the voyage. Marlow said
little. He had lost the ship, and with it his brother Edmund. Agnes had loved Edmund once, and she wept when Marlow
told her. In the evening old Tobias Finch came to the inn, for Finch had built the ship, and wished to hear how it
had gone down. "She was a good ship," said Marlow to Finch. "It was the ice." Finch drank his ale and went home to
his daughter Clara. Clara had waited for Edmund too, though she had told no one but Agnes.""",
    "trial": """
The trial of Henry Vance began in Northwick on a wet Monday. Judge Harrow sat under the clock and looked at nobody.
Vance was said to have robbed the bank of Mr. Pemberton, and Pemberton himself was the first to speak. He had seen
Vance at the door, he said, on the night of the fire. Then Lucy Dane stood up. Lucy had been with Vance that night,
at the fair in Ashby, and she told Judge Harrow so. Harrow asked her twice, and twice Lucy gave the same answer.
Pemberton grew pale. In the end it was Lucy who found the letter, and the letter showed that Pemberton had robbed
his own bank. Harrow let Vance go free, and Vance married Lucy in Ashby before the summer was over.""",
}
SEQUEL = """
In June a letter came to Saltmere from the north. Edmund was alive. Clara read the letter aloud to Agnes, and in
August Clara married Edmund in the little church of Saltmere."""
QUESTIONS = {
    "harbour": ["___ kept the inn above the quay .", "Who built the ship?"],
    "trial": ["Who married Lucy?", "___ robbed his own bank .", "The fair was in ___ ."],
}
QUESTIONS_AFTER_SEQUEL = ["Clara married ___ in the little church .", "Who wept?"]
QUESTIONS_TO_BOTH = ["Who married Lucy?", "Clara married ___ in the little church ."]


def run_demo(lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Show a library at work, and what a question costs on this machine."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder, Library(Path(folder) / "tales") as library:
        show_library(console, library)
    console.print("\n[bold]What a question costs[/bold]\n")
    show_cost(console, lengths, effort)
    print_plain(
        console,
        "\nYour own texts:  attar add tales FILE…   then   attar ask tales NAME 'Who …?'"
        "\nIn a browser:    attar serve tales       then   http://127.0.0.1:8000",
    )


def show_library(console: Console, library: Library) -> None:
    """Add, ask, append, ask again, merge, remove."""
    console.print("[bold]Two tales become memories[/bold]\n")
    rows = []
    library.reader.answer(library.reader.read("Ann met Bob."), "Who met Bob?")  # load before timing
    for name, text in TALES.items():
        began = perf_counter()
        added = library.add(name, text)
        seconds = perf_counter() - began
        rows.append([name, str(added.tokens), quantity(added.bytes, "B"), quantity(seconds, "s")])
    print_table(console, ["document", "tokens", "memory", "read and saved in"], rows)
    console.print("\n[bold]Questions are answered from the memories; the texts are not kept[/bold]\n")
    _ask(console, library, QUESTIONS)
    library.append("harbour", SEQUEL)
    console.print("\n[bold]The tale of the harbour continues: two sentences appended[/bold]\n")
    _ask(console, library, {"harbour": QUESTIONS_AFTER_SEQUEL})
    library.merge("both", list(TALES))
    console.print("\n[bold]Memories can be added: both tales in one[/bold]\n")
    _ask(console, library, {"both": QUESTIONS_TO_BOTH})
    library.remove("trial")
    left = ", ".join(document.name for document in library.documents())
    print_plain(console, f"\nRemoved trial; left are {left}.")
    print_plain(console, "The reader is small and often wrong: docs/reader.md says how often it is right.")


def _ask(console: Console, library: Library, questions: dict[str, list[str]]) -> None:
    """Print the best answers and the time of each question."""
    rows = []
    for name, texts in questions.items():
        for question in texts:
            began = perf_counter()
            answers = library.ask(name, question, top=3)
            seconds = perf_counter() - began
            best = ", ".join(f"{answer.text} {answer.probability:.0%}" for answer in answers)
            rows.append([name, question, best, quantity(seconds, "s")])
    print_table(console, ["document", "question", "answers", "time"], rows)


def show_cost(console: Console, lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Print what a question costs as the document grows."""
    print_plain(
        console,
        f"A random document, n states of size k = {SIZE}, becomes a memory C = HᵀH of {SIZE} × {SIZE}.\n"
        f"It gets {QUESTIONS_PER_DOCUMENT} questions, on one thread: softmax reads all of H for each, C q only C.\n",
    )
    torch.manual_seed(0)
    with Console(stderr=True).status("measuring …"):
        measured = [measure_question(n, effort or Effort(budget=0.6)) for n in lengths]
    print_table(console, COLUMNS, [cells for cells, *_ in measured])
    (_, *first), (_, *last) = measured[0], measured[-1]
    softmax, memory = (after / before for before, after in zip(first, last, strict=True))
    print_plain(
        console,
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
