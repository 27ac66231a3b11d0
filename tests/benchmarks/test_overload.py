"""The overload benchmark: its targets, and a short run against a real server."""

import os

import pytest
from rich.console import Console

from attar.errors import OptionError
from benchmarks import overload
from benchmarks.load import Load


class StubServer:
    """A server process with known memory."""

    port = 0

    def __init__(self, *memories):
        self.memories = iter(memories)

    def memory(self):
        return next(self.memories)

    def cpu_seconds(self):
        return 0.0


def load(rate=100, seconds=1.0, late=0.01, **statuses):
    found = Load(seconds, [late] * rate, moments=[at * seconds / rate for at in range(rate)])
    found.statuses.update({200: rate} | {int(name[1:]): count for name, count in statuses.items()})
    return found


def measured(monkeypatch, overloaded, after=None, memories=(100, 100)):
    """What is measured if the loads have these results: warm-up, two full ones, the overload, and one after."""
    left = iter([load(), load(90), load(100), overloaded, after or load()])
    monkeypatch.setattr(overload, "drive_now", lambda *arguments, **options: next(left))
    return overload.overload(StubServer(*memories), 3, 1.0, 4.0, (4, 8), 16)


@pytest.mark.parametrize(
    ("words", "met"),
    [
        ({"overloaded": load(70, s503=300)}, True),
        ({"overloaded": load(50, s503=300)}, False),
        ({"overloaded": load(70, late=1.5)}, False),
        ({"overloaded": load(70), "after": load(10)}, False),
        ({"overloaded": load(70), "memories": (100, 110)}, False),
    ],
    ids=["met", "too few answers", "late", "slow afterwards", "memory grew"],
)
def test_an_overload_is_judged_by_answers_latency_memory_and_recovery(monkeypatch, words, met):
    assert measured(monkeypatch, **words).met is met


def test_the_full_rate_is_the_best_of_its_tries(monkeypatch):
    found = measured(monkeypatch, load(70, s503=30))
    assert (found.full_rate, found.offered_rate, found.ratio, found.refused) == (100.0, 400.0, 0.7, 30)


def test_other_statuses_are_an_error(monkeypatch):
    with pytest.raises(OptionError, match="500"):
        measured(monkeypatch, load(70, s500=1))


def test_a_server_that_stays_slow_has_not_recovered():
    assert overload.seconds_until_recovered(Load(2.0, moments=[0.1, 1.1]), 100.0) is None


def test_every_target_is_printed_with_its_verdict(monkeypatch, capsys):
    overload.print_overload(measured(monkeypatch, load(50, s503=300)), Console(width=200))
    shown = capsys.readouterr().out
    assert "answered / full rate" in shown
    assert shown.count("missed") == 1
    assert shown.count("met") == 3


def test_the_cores_are_given_back():
    before = os.sched_getaffinity(0)
    with overload.apart():
        overload._own_cores()
    assert os.sched_getaffinity(0) == before


@pytest.mark.slow
def test_a_real_server_is_overloaded_for_a_moment():
    found = overload.run(
        documents=3, seconds=0.3, usual=(2, 4), connections=16, options=("--max-concurrent", "4")
    )
    assert found.full_rate > 0
    assert found.answered_rate > 0
