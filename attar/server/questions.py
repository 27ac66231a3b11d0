"""Questions of many requests, answered together; one's fault is nobody else's."""

from collections.abc import Callable
from typing import NamedTuple

from attar.errors import AttarError
from attar.library import Library
from attar.results import Answer
from attar.server.batching import apart


class AskJob(NamedTuple):
    """Questions of one request, a document's name for each."""

    names: list[str]
    questions: list[str]
    top: int | None


class Found(NamedTuple):
    """Answers to each question, and the bytes of the memories that were asked."""

    answers: list[list[Answer]]
    bytes: int


def answer_each(library: Library) -> Callable[[list[AskJob]], list[Found | Exception]]:
    """The work of a batch: what came of each job, or what is wrong with it."""

    def try_all(jobs: list[AskJob]) -> list[list[list[Answer]]]:
        return answer_together(library, jobs)

    together = apart(try_all)

    def answer(jobs: list[AskJob]) -> list[Found | Exception]:
        sizes = sizes_of(library, {name for job in jobs for name in job.names})
        faults = [fault_in(job, sizes) for job in jobs]
        answers = iter(together([job for job, fault in zip(jobs, faults, strict=True) if fault is None]))
        found: list[Found | Exception] = []
        for job, fault in zip(jobs, faults, strict=True):
            said = next(answers) if fault is None else fault
            if isinstance(said, Exception):
                found.append(said)
            else:
                found.append(Found(said, sum(bytes_in(sizes, name) for name in set(job.names))))
        return found

    return answer


def answer_together(library: Library, jobs: list[AskJob]) -> list[list[list[Answer]]]:
    """The answers of each job, whose documents are there."""
    if not jobs:
        return []
    names = [name for job in jobs for name in job.names]
    questions = [question for job in jobs for question in job.questions]
    tops = [job.top for job in jobs]
    top = None if None in tops else max(top for top in tops if top is not None)
    answers = iter(library.ask_many(names, questions, top=top))
    return [[next(answers)[: job.top] for _ in job.questions] for job in jobs]


def sizes_of(library: Library, names: set[str]) -> dict[str, int | AttarError]:
    """The bytes of documents' memories, or what is wrong with a name.

    Looked at before they are asked: a library that is asked for a name that it does not have looks for near ones,
    which takes a second among ten thousand documents, and everybody in the batch would wait for it.
    """
    sizes: dict[str, int | AttarError] = {}
    with library.store.snapshot() as now:
        for name in names:
            try:
                sizes[name] = len(now.view(name))
            except AttarError as fault:
                sizes[name] = fault
    return sizes


def fault_in(job: AskJob, sizes: dict[str, int | AttarError]) -> AttarError | None:
    """What is wrong with the first of a job's names with which something is."""
    return next((size for size in (sizes[name] for name in job.names) if isinstance(size, AttarError)), None)


def bytes_in(sizes: dict[str, int | AttarError], name: str) -> int:
    """The bytes of a document that was asked."""
    size = sizes[name]
    return size if isinstance(size, int) else 0
