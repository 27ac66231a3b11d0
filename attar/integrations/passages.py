"""What every framework for language models is given: passages for its retriever, and answers as text for its tool."""

from typing import Any, NamedTuple, Protocol

from attar.errors import AttarError
from attar.results import Answer, Hit

TOOL_NAME = "ask_documents"
TOOL_DESCRIPTION = (
    "Answer a question in plain English from the documents of the library. Gives phrases of the documents with their "
    "probabilities, their places and the sentences that say so, or says that the documents do not tell."
)

# What rounds to 0% only distracts a model.
_LEAST = 0.005


class AskedLibrary(Protocol):
    """What a retriever and a tool call; `attar.Library` and `attar.Client` have it."""

    def search(self, query: str, *, top: int = 10, passages: bool = False) -> list[Hit]: ...

    def ask_all(self, question: str, *, top: int | None = 5) -> list[Answer]: ...


class FoundPassage(NamedTuple):
    """A passage of a document that search found; `metadata` says where it stands."""

    text: str
    score: float
    metadata: dict[str, Any]


def find_passages(library: AskedLibrary, query: str, top: int) -> list[FoundPassage]:
    """The passages of the best `top` documents, those of the best document first."""
    found = []
    for hit in library.search(query, top=top, passages=True):
        for passage in hit.passages:
            places = {"start": passage.start, "end": passage.end, "place": passage.place}
            about = {"document": hit.document, "title": hit.title} | places
            given = {name: value for name, value in about.items() if value not in ("", None)}
            found.append(FoundPassage(passage.text, hit.score, given))
    return found


def answer_text(library: AskedLibrary, question: str, top: int = 3) -> str:
    """The answers to a question, one per line, as a language model reads them; so is a mistake in the question."""
    try:
        answers = library.ask_all(question, top=top)
    except AttarError as mistake:
        return f"Error: {mistake}"
    likely = [answer for answer in answers if answer is answers[0] or answer.probability >= _LEAST]
    return "\n".join(map(_line, likely)) or "The library has no documents."


def _line(answer: Answer) -> str:
    if answer.absent:
        return f"The documents do not say it ({answer.certainty}, {answer.probability:.0%})."
    place = ", ".join(part for part in (answer.document, answer.place) if part)
    quote = f": {' '.join(answer.quote.split())}" if answer.quote else ""
    return f"{' '.join(answer.text.split())} ({answer.certainty}, {answer.probability:.0%}; {place}){quote}"
