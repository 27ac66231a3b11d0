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


def run_prompt(asking: Asking, read_line: Callable[[str], str] = input) -> None:
    """Read lines with `read_line`, which is given the prompt, until the end."""
    count = len(asking.library)
    print(f"{count:,} {'document' if count == 1 else 'documents'}; :help shows the commands")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # arrow keys
    while True:
        asked = "all" if asking.document is None else one_line(asking.document)
        try:
            line = read_line(f"{asked}> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:  # drops the line, as in a shell
            print()
            continue
        if line in _QUIT:
            return
        try:
            asking = _obey(asking, line)
        except AttarError as fault:
            print_note(fault)
        except KeyboardInterrupt:
            print("stopped")


def _obey(asking: Asking, line: str) -> Asking:
    """Do what a line says; what is asked from then on."""
    command, _, rest = line.partition(" ")
    if command == ":doc" and rest.strip():
        from attar.library.documents import find_document

        return replace(asking, document=find_document(asking.library.store, rest.strip()))
    if command == ":all":
        return replace(asking, document=only_document(asking.library))
    if line in _ASKED_FOR_HELP:
        print(_HELP)
    elif line.startswith(":"):
        print(f"{printable(command)} is none of the commands\n{_HELP}")
    elif line:
        (answers,) = asking.answers([line])
        if asking.document is None:
            print_left_out(asking.library)
        print(Quotes(asking.library, asking.document).answers(answers))
    return asking
