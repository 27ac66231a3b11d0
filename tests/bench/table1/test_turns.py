"""All sizes and ways take turns; those that are wrong sit out."""

import time

import pytest

from attar.bench.case import Contender
from attar.bench.clocks import QUICK, DeviceClock, Effort, WallClock
from attar.bench.table1.turns import ComputingClock, Field, Turns, race, schedule_for


class SetClock:
    """A clock whose times are known; it remembers whom it timed together."""

    def __init__(self, **seconds):
        self.seconds, self.timed = seconds, []

    def race(self, contenders):
        self.timed.append([contender.name for contender in contenders])
        return [[self.seconds[contender.name]] * 3 for contender in contenders]


def contender(name, error=0.0, amount=1.0, run=lambda: None):
    return Contender(name, run, lambda: error, 1e-3, amount)


def test_sizes_take_turns_as_well_as_ways():
    order = []
    fields = [
        Field(n, 1, [contender(way, run=lambda n=n, way=way: order.append(f"{way}{n}")) for way in "ab"])
        for n in (1, 2)
    ]
    race(fields, Turns(WallClock(Effort(budget=0.0, rounds=2, round_seconds=0.0)), 1), [], lambda: None)
    assert order == ["a1", "b1", "a2", "b2"] * 3


def test_seconds_are_those_of_one():
    (point,) = race([Field(7, 4, [contender("a", amount=4.0)])], Turns(SetClock(a=1.0), 1), [], lambda: None)
    assert (point.tokens, point.questions, point.costs["a"].middle) == (7, 4, 0.25)


def test_progress_is_told_before_every_pass():
    clock, told = SetClock(a=1.0), []
    race([Field(7, 1, [contender("a")])], Turns(clock, 3), [], lambda: told.append(len(clock.timed)))
    assert told == [0, 1, 2]


def test_whoever_is_wrong_at_a_size_sits_out_there_and_is_named():
    clock, notes = SetClock(a=1.0, b=2.0), []
    fields = [Field(10, 1, [contender("a"), contender("b", error=1.0)]), Field(20, 1, [contender("b")])]
    first, second = race(fields, Turns(clock, 1), notes, lambda: None)
    assert clock.timed == [["a", "b"]]
    assert (set(first.costs), set(second.costs)) == ({"a"}, {"b"})
    assert notes == ["n = 10, m = 1: b is off by 1.0e+00, more than 1e-03"]


def test_where_all_are_wrong_nobody_runs():
    clock = SetClock()
    assert race([Field(1, 1, [contender("a", 1.0)])], Turns(clock, 2), [], lambda: None)[0].costs == {}
    assert clock.timed == []


@pytest.mark.parametrize(("device", "clock"), [("cpu", ComputingClock), ("cuda", DeviceClock)])
def test_each_device_has_its_own_clock(device, clock):
    schedule = schedule_for(device)
    assert all(
        isinstance(turns.clock, clock) for turns in (schedule.asking, schedule.reading, schedule.sharing)
    )


def test_time_that_others_take_does_not_count():
    resting = contender("resting", run=lambda: time.sleep(0.05))
    assert ComputingClock(QUICK).time_of(resting, 2) < WallClock(QUICK).time_of(resting, 2)


def test_short_runs_are_tried_again_before_they_are_counted():
    ran = []
    clock = ComputingClock(Effort(budget=0.0, rounds=1, round_seconds=1e-9))
    clock.calls_of(contender("long", run=lambda: ran.append(sum(range(10_000)))))
    assert len(ran) == 1
    ComputingClock(Effort(round_seconds=60.0)).calls_of(contender("short", run=lambda: ran.append(0)))
    assert len(ran) == 1 + 6
