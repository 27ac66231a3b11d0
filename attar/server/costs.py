"""What questions cost: bounded before any work begins, and cut into turns, so that others get theirs in between.

A question costs in proportion to its characters, and its reply to the number of answers.
"""

from collections.abc import Iterator, Sequence

from attar.server.problems import ProblemError

# Characters of all questions of a request: those of 1,000 long ones would take minutes.
MAX_CHARACTERS = 128_000
# Answers that a request may ask for; each takes some 300 bytes of the reply.
MAX_ANSWERS = 50_000
# As many as there may be if all are asked for (`top` is null).
_ALL = 1_000
# Characters of the questions that are answered before others have their turn.
_TURN_CHARACTERS = 4_000
# Characters of a question that people ask, at most.
_SHORT = 64


def check_cost(questions: Sequence[str], top: int | None) -> None:
    """Refuse questions that are too long together, or ask for too many answers."""
    characters = sum(map(len, questions))
    answers = len(questions) * (_ALL if top is None else top)
    for what, limit, got, remedy in (
        ("characters of all questions", MAX_CHARACTERS, characters, "split them over several requests"),
        ("questions × top", MAX_ANSWERS, answers, "ask for fewer answers, or split the questions"),
    ):
        if got > limit:
            raise ProblemError(413, f"{what}: expected at most {limit:,}, got {got:,}; {remedy}")


def weight_of(questions: Sequence[str]) -> int:
    """How much work questions are: one each, and more for long ones.

    >>> weight_of(["Who left?"] * 3), weight_of(["a" * 1_920])
    (3, 30)
    """
    return sum(max(1, len(question) // _SHORT) for question in questions)


def turns(questions: Sequence[str], most: int) -> Iterator[slice]:
    """Cut questions into turns of at most `most` of them, and of about as many characters each.

    >>> list(turns(["a", "b", "c"], 2)), list(turns(["a" * 3_000] * 2 + ["b"], 64))
    ([slice(0, 2, None), slice(2, 3, None)], [slice(0, 1, None), slice(1, 3, None)])
    """
    first = characters = 0
    for at, question in enumerate(questions):
        characters += len(question)
        if at > first and (at - first == most or characters > _TURN_CHARACTERS):
            yield slice(first, at)
            first, characters = at, len(question)
    if questions:
        yield slice(first, len(questions))
