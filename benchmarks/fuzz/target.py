"""A fuzz target, how one is run, and a check in a fork: what would end the process ends the fork only."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from attar.errors import AttarError

# What one example may take: seconds of computing, seconds on the clock of a busy machine, and bytes beyond what the
# process had.
_COMPUTING, _SECONDS, _BYTES = 20, 300, 2**29


@dataclass(frozen=True)
class Target:
    """Inputs, and the check of one."""

    inputs: SearchStrategy[Any]
    check: Callable[[Any], None]


def run(target: Target, examples: int, seed: int | None) -> None:
    """Check a number of examples, the same ones every time without a seed; raises what fails, made small."""

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )
    @given(target.inputs)
    def one(example: Any) -> None:
        target.check(example)

    if seed is not None:
        one = hypothesis.seed(seed)(one)
    one()


@contextmanager
def refused() -> Iterator[None]:
    """Accept a refusal, if it is one line of a reasonable length."""
    try:
        yield
    except AttarError as refusal:
        one_line(refusal)


def one_line(refusal: AttarError) -> None:
    """Accept a refusal, if it is one line of a reasonable length."""
    line = str(refusal)
    if "\n" in line or len(line) > 2000 or not line:
        raise AssertionError(f"a refusal of {len(line)} characters: {line[:300]!r}") from refusal


def in_fork(check: Callable[[], object]) -> None:
    """Check in a fork with limits on time and memory."""
    ours, theirs = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(ours)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            _set_limits()
            check()
            os._exit(0)
        except BaseException as fault:
            trace = traceback.extract_tb(fault.__traceback__)[-1]
            told = f"{type(fault).__name__}: {str(fault)[:500]} ({trace.filename}:{trace.lineno})"
            os.write(theirs, told.encode(errors="replace")[:4000])
            os._exit(1)
    os.close(theirs)
    try:
        status = _waited(child)
        with os.fdopen(ours, "rb") as pipe:
            told = pipe.read().decode(errors="replace")
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
        raise AssertionError(f"no end after {_SECONDS} s") from None
    if os.WIFSIGNALED(status):
        raise AssertionError(f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}")
    if status:
        raise AssertionError(told)


def _waited(child: int) -> int:
    end, pause = time.monotonic() + _SECONDS, 0.0005
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    raise TimeoutError


def _set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_COMPUTING, _COMPUTING))
    with open("/proc/self/status") as file:
        used = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + _BYTES, used + _BYTES))
