"""`attar demo`: a library of two tales, read, asked, continued and merged; then what a question costs."""

import tempfile
from pathlib import Path
from time import perf_counter

from rich.console import Console

from attar.bench.clocks import Effort
from attar.bench.demo_cost import LENGTHS, show_cost
from attar.bench.tables import print_table, quantity
from attar.library import Library

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
AFTER_SEQUEL = ["Clara married ___ in the little church .", "Who wept?"]
OF_BOTH = ["Who married Lucy?", "Clara married ___ in the little church ."]


def run_demo(lengths: tuple[int, ...] = LENGTHS, effort: Effort | None = None) -> None:
    """Tell the whole story on this machine, and end."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder, Library(Path(folder) / "tales") as library:
        tell(console, library)
    console.print("\n[bold]What a question costs[/bold]\n")
    show_cost(console, lengths, effort)
    console.print(
        "\nYour own texts:  attar add tales FILE…   then   attar ask tales NAME 'Who …?'"
        "\nIn a browser:    attar serve tales       then   http://127.0.0.1:8000",
        highlight=False,
    )


def tell(console: Console, library: Library) -> None:
    """Add, ask, append, ask again, merge, remove."""

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    say("[bold]Two tales become memories[/bold]\n")
    rows = []
    library.reader.answer(library.reader.read("Ann met Bob."), "Who met Bob?")  # loaded before the clock runs
    for name, text in TALES.items():
        began = perf_counter()
        added = library.add(name, text)
        seconds = perf_counter() - began
        rows.append([name, str(added.tokens), quantity(added.bytes, "B"), quantity(seconds, "s")])
    print_table(console, ["document", "tokens", "memory", "read and on disk in"], rows)
    say("\n[bold]Questions are answered from the memories, the texts are not kept[/bold]\n")
    ask(console, library, QUESTIONS)
    library.append("harbour", SEQUEL)
    say("\n[bold]The harbour's tale goes on: two sentences appended[/bold]\n")
    ask(console, library, {"harbour": AFTER_SEQUEL})
    library.merge("both", list(TALES))
    say("\n[bold]Memories add up: both tales in one[/bold]\n")
    ask(console, library, {"both": OF_BOTH})
    library.remove("trial")
    left = ", ".join(facts.name for facts in library.documents())
    say(f"\nRemoved trial; left are {left}.")
    say("The reader is small, and guesses: docs/reader.md says how often it is right.")


def ask(console: Console, library: Library, questions: dict[str, list[str]]) -> None:
    """Print the first answers to questions, with what each took."""
    rows = []
    for name, asked in questions.items():
        for question in asked:
            began = perf_counter()
            answers = library.ask(name, question, top=3)
            seconds = perf_counter() - began
            said = ", ".join(f"{answer.text} {answer.probability:.0%}" for answer in answers)
            rows.append([name, question, said, quantity(seconds, "s")])
    print_table(console, ["document", "question", "answers", "in"], rows)
