"""Tests of the cluster end in bounded time, and say what hung."""

import subprocess
import time

import pytest

from .conftest import limited
from .servers import Server


def test_what_hangs_is_named():
    named = r"waiting for ever: not done after 0\.1 s"
    with pytest.raises(pytest.fail.Exception, match=named), limited("waiting for ever", 0.1):
        time.sleep(10)


def test_a_process_that_is_waited_for_hangs_no_longer_than_the_limit():
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as process:
        with pytest.raises(pytest.fail.Exception, match="reading: not done"), limited("reading", 0.1):
            process.stdout.read()
        process.kill()


@pytest.mark.slow
def test_a_server_that_does_not_start_is_ended(tmp_path):
    with pytest.raises(AssertionError, match=r"the server did not start in 0\.01 s"):
        Server(tmp_path / "library", seconds=0.01)
