"""Long changes as jobs: accepted at once, run one after the other, watched and cancelled by their id.

A job is a file in a folder that all worker processes share, so that each of them can tell about it and cancel it. The
process that accepted it writes the file, and looks for a second one that cancels it.
"""

import logging
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from attar.files import atomic_file
from attar.library.drafts import Draft
from attar.library.served import ServedLibrary
from attar.progress import StoppedError, check_stopped, return_memory, stopped_by
from attar.results import Change
from attar.server.metrics import is_alive
from attar.server.problems import ProblemError, problem_for
from attar.wire import Job

log = logging.getLogger("attar.server")

# A text of more characters becomes a job: one core reads these in about ten seconds.
LONG = 100_000
# A file of more bytes becomes one before its text is known.
LONG_FILE = 1_000_000
# Seconds for which a job that has ended can be asked for.
_KEPT = 600.0
# The most ended jobs that can be, and the most bytes of their files, which have all changes.
_MOST_KEPT, _MOST_BYTES = 256, 4_000_000
# Seconds between two writes of a job's progress, and between two looks at whether another process cancelled it.
_PERIOD = 0.2
# The priority of the thread that works on jobs, as in the command nice.
_NICENESS = 10
# The suffixes of a job's file, and of the one that cancels it.
_JOB = ".job"
_CANCEL = ".cancel"
_ID = re.compile(r"[0-9a-f]{32}")


class _JobFile(msgspec.Struct):
    """A job, and the process that has it."""

    process: int
    job: Job


_decode = msgspec.json.Decoder(_JobFile).decode


class RunningJob:
    """A job as its work sees it: tells how far it is, and what is on disk."""

    def __init__(self, jobs: "Jobs", job: Job) -> None:
        self._jobs, self._job = jobs, job
        self._written = self._looked = 0.0
        self._is_cancelled = False

    def progress(self, done: int, total: int) -> None:
        self._job.done, self._job.total = done, total
        self._write_now_and_then()

    def add(self, change: Change) -> None:
        self._job.changes.append(change)
        self._write_now_and_then()

    def is_stopped(self) -> bool:
        """Whether the job was cancelled, or the server stops."""
        if time.monotonic() - self._looked > _PERIOD:
            self._looked = time.monotonic()
            self._is_cancelled = self._jobs.is_cancelled(self._job.id)
        return self._is_cancelled or self._jobs.is_closing

    def run(self, work: "Callable[[RunningJob], None]") -> None:
        self._job.state = "running"
        self._write()
        try:
            with stopped_by(self.is_stopped):
                check_stopped()
                work(self)
            self._job.state, self._job.done = "done", self._job.total
        except StoppedError:
            self._job.state = "cancelled"
        except Exception as error:
            known = problem_for(error)
            if known is None or known.server_fault:
                log.exception("job", extra={"fields": {"job": self._job.id}})
            problem = known or ProblemError(500, "internal error; the log has it under this job's id")
            self._job.state, self._job.problem = "failed", problem.described(f"urn:job:{self._job.id}")
        self._write()
        return_memory()

    def _write_now_and_then(self) -> None:
        if time.monotonic() - self._written > _PERIOD:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self._jobs.write(self._job)


class Jobs:
    """The jobs of a server; `limit` of this process may wait or run."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs", initializer=_yield_to_questions)
        self._unfinished: list[Future[None]] = []
        self.is_closing = False

    def submit(self, what: str, work: Callable[[RunningJob], None]) -> Job:
        """Accept a job; only the event loop calls this."""
        self._forget()
        self._unfinished = [future for future in self._unfinished if not future.done()]
        if len(self._unfinished) >= self._limit:
            raise ProblemError(503, f"{self._limit} jobs are waiting already; try again later")
        job = Job(secrets.token_hex(16), what, "waiting", datetime.now(UTC))
        self.write(job)
        answer = msgspec.structs.replace(job, changes=[])
        self._unfinished.append(self._thread.submit(RunningJob(self, job).run, work))
        return answer

    def get(self, job_id: str) -> Job:
        kept = self._read(job_id)
        job = kept.job
        if not job.ended and not is_alive(kept.process):
            job.state = "failed"
            job.problem = ProblemError(
                503, "the process that had the job has ended; send it again"
            ).described()
        elif job.state == "waiting" and self.is_cancelled(job_id):
            job.state = "cancelled"
        return job

    def _read(self, job_id: str) -> _JobFile:
        try:
            return _decode(self._path(job_id, _JOB).read_bytes())
        except FileNotFoundError:
            detail = f"there is no such job; one that has ended is kept for {_KEPT / 60:g} minutes"
            raise ProblemError(404, detail) from None

    def all(self) -> list[Job]:
        self._forget()
        jobs = []
        for path in self._folder.glob(f"*{_JOB}"):
            with suppress(ProblemError):  # forgotten meanwhile
                jobs.append(self.get(path.stem))
        return sorted(jobs, key=lambda job: job.created)

    def cancel(self, job_id: str) -> Job:
        """Stop a job at its next window; one that has ended stays as it is."""
        if not self.get(job_id).ended:
            self._path(job_id, _CANCEL).touch()
        return self.get(job_id)

    def is_cancelled(self, job_id: str) -> bool:
        return self._path(job_id, _CANCEL).exists()

    def write(self, job: Job) -> None:
        """Keep the state of a job; whoever reads it gets the one before, or this one."""
        with atomic_file(self._path(job.id, _JOB)) as partial:
            partial.write_bytes(msgspec.json.encode(_JobFile(os.getpid(), job)))

    def close(self) -> None:
        self.is_closing = True
        self._thread.shutdown(cancel_futures=True)

    def _path(self, job_id: str, suffix: str) -> Path:
        if not _ID.fullmatch(job_id):
            raise ProblemError(404, "there is no such job: an id is 32 hexadecimal digits")
        return self._folder / f"{job_id}{suffix}"

    def _forget(self) -> None:
        """Delete jobs that ended long ago, or many jobs ago."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.glob(f"*{_JOB}"):
            with suppress(OSError):  # forgotten meanwhile
                found.append((path.stat().st_mtime, path.stat().st_size, path))
        bytes_of_newer = 0
        for newer, (changed, size, path) in enumerate(sorted(found, reverse=True)):
            is_old = newer >= _MOST_KEPT or bytes_of_newer > _MOST_BYTES or time.time() - changed > _KEPT
            bytes_of_newer += size
            if is_old:
                with suppress(ProblemError):  # forgotten meanwhile
                    # One that is cancelled while it waits needs its files until its turn comes.
                    if self._read(path.stem).job.ended:
                        path.unlink(missing_ok=True)
                        path.with_suffix(_CANCEL).unlink(missing_ok=True)


def add_drafts(library: ServedLibrary, drafts: Sequence[Draft], replace: bool, job: RunningJob) -> None:
    """Add documents; those before a refused one are added."""
    sizes = {draft.name: len(draft.text) for draft in drafts}
    before, total = 0, sum(len(draft.text) for draft in drafts)
    job.progress(0, total)

    def add(change: Change) -> None:
        nonlocal before
        before += sizes[change.name]
        job.add(change)
        job.progress(before, total)

    def tell(what: str, done: int, of: int) -> None:
        if len(drafts) == 1:  # else it is of some documents that are read together
            job.progress(total * done // max(of, 1), total)

    library.add_many(drafts, replace=replace, on_change=add, progress=tell)


def _yield_to_questions() -> None:
    """Let the threads that answer have the processor first; Linux has a priority for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
