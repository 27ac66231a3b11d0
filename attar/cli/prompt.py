"""The prompt of `attar ask`: questions one after another, with the model loaded once."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

from attar.cli.ask import Asking, only_document, print_left_out
from attar.cli.output import Quotes, one_line, print_note, printable
from attar.errors import AttarError

# The plain words too, as nobody asks them.
_QUIT = (":quit", ":q", ":exit", "quit", "exit")
_ASKED_FOR_HELP = (":help", ":h", "help")
_HELP = """\
Type a question, or a sentence with ___ for the answer.
:doc NAME   ask this document; the beginning of its name is enough
:all        ask all documents
:help       this
:quit       leave; so does Ctrl-D"""


class Prompt:
    def __init__(self, asking: Asking) -> None:
        self._asking, self._library = asking, asking.library
        self._choose(asking.document)

    def _choose(self, document: str | None) -> None:
        document = only_document(self._library) if document is None else document
        self._asking = replace(self._asking, document=document)
        self._quotes = Quotes(self._library, document)

    def run(self, read_line: Callable[[str], str] = input) -> None:
        """Read lines with `read_line`, which is given the prompt, until the end."""
        count = len(self._library)
        print(f"{count:,} {'document' if count == 1 else 'documents'}; :help shows the commands")
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # arrow keys
        while True:
            try:
                line = read_line(self._prompt()).strip()
            except EOFError:
                print()
                return
            except KeyboardInterrupt:  # drops the line, as in a shell
                print()
                continue
            if line in _QUIT:
                return
            try:
                self._obey(line)
            except AttarError as fault:
                print_note(fault)
            except KeyboardInterrupt:
                print("stopped")

    def _prompt(self) -> str:
        document = self._asking.document
        return f"{'all' if document is None else one_line(document)}> "

    def _obey(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if command == ":doc" and rest.strip():
            from attar.library.documents import find_document

            self._choose(find_document(self._library.store, rest.strip()))
        elif command == ":all":
            self._choose(None)
        elif line in _ASKED_FOR_HELP:
            print(_HELP)
        elif line.startswith(":"):
            print(f"{printable(command)} is none of the commands\n{_HELP}")
        elif line:
            (answers,) = self._asking.answers([line])
            if self._asking.document is None:
                print_left_out(self._library)
            print(self._quotes.answers(answers))
