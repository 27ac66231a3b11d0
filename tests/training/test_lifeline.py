"""Runs end with who started them, whether that was told to end or killed."""

import os
import signal
import subprocess
import sys

import pytest

from attar.training.lifeline import lifeline, sigterm_ends

# Starts a run that would go on for long, tells that it has begun, and waits for it.
STARTER = """
import subprocess, sys
from attar.training.lifeline import lifeline, sigterm_ends
program = '''
import time
from attar.training.lifeline import end_when_cut
end_when_cut()
print("begun", flush=True)
time.sleep(600)
'''
with sigterm_ends(), lifeline() as line:
    try:
        subprocess.run([sys.executable, "-c", program], stdin=line)
    finally:
        print("put away", flush=True)
"""


def start() -> "subprocess.Popen[str]":
    """The starter, its run begun; both write to one pipe, which ends when they both have."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == "begun\n"
    return starter


@pytest.mark.slow
def test_a_run_ends_when_its_starter_is_killed() -> None:
    starter = start()
    starter.kill()
    told, _ = starter.communicate(timeout=60)
    assert told == "attar: ended, for the comparison that started this run has\n"


@pytest.mark.slow
def test_a_starter_that_is_told_to_end_puts_everything_away_first() -> None:
    starter = start()
    starter.terminate()
    told, _ = starter.communicate(timeout=60)
    assert "put away" in told
    assert starter.returncode == 128 + signal.SIGTERM


def test_the_signal_is_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), sigterm_ends():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_lifeline_is_cut_where_it_ends() -> None:
    with lifeline() as line:
        kept = os.dup(line)
    assert os.read(kept, 1) == b""
    os.close(kept)
