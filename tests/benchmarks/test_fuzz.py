"""`make fuzz`: some examples of every target here, the same ones every time; a failure prints the smallest example."""

import subprocess
import sys

import pytest
from hypothesis import strategies as st

from attar.errors import FormatError
from benchmarks.fuzz.__main__ import TARGETS
from benchmarks.fuzz.target import Target, refused, run

# About a minute in all: targets that take alike share a process, which takes seconds to start.
EXAMPLES = {"memory,envelope,names": 300, "source,documents": 80, "signatures,store,import": 30}
EXAMPLES |= {"reader,cloze,text,library,http,http-phrases": 20}


def test_every_target_is_tried():
    assert sorted(",".join(EXAMPLES).split(",")) == sorted(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("names", EXAMPLES)
def test_nothing_but_answers_and_refusals(names):
    command = [sys.executable, "-m", "benchmarks.fuzz", "--only", names, "--examples", str(EXAMPLES[names])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-3000:]


def test_a_failure_is_made_small():
    def check(number):
        assert number < 1000

    with pytest.raises(AssertionError, match="assert 1000 < 1000"):
        run(Target(st.integers(0, 10**6), check), 300, None)


def test_a_refusal_is_one_line():
    with refused():
        raise FormatError.expected("file", "a reader's", "another")
    with pytest.raises(AssertionError, match="a refusal of"), refused():
        raise FormatError.expected("file", "a reader's\n", "another")
    with pytest.raises(KeyError), refused():
        raise KeyError


PROGRAM = """
import os, signal
from benchmarks.fuzz.target import in_fork
in_fork(lambda: {})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGBUS)", "ended by SIGBUS"),
        ("1 / 0", "ZeroDivisionError"),
        ("bytearray(2**31)", "MemoryError"),
    ],
)
def test_what_ends_a_fork_is_told(work, message):
    program = PROGRAM.format(work)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert message in ran.stderr


def test_a_check_in_a_fork_that_passes_is_silent():
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format("0")], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
