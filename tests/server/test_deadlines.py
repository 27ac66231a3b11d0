"""One timer for all requests: each has its own time, and who is late is told so."""

import asyncio

import pytest

from attar.server.deadlines import Deadlines


async def limited(deadlines, work):
    """Do work within the limit, as the gate does; gives "late" if it was."""
    task = asyncio.current_task()
    deadlines.begin(task)
    try:
        return await work
    except asyncio.CancelledError:
        if deadlines.end(task):
            return "late"
        raise
    finally:
        deadlines.end(task)


async def after(seconds, value):
    await asyncio.sleep(seconds)
    return value


def test_what_is_done_in_time_is_not_ended():
    async def main():
        return await limited(Deadlines(30.0), after(0, "done"))

    assert asyncio.run(main()) == "done"


def test_what_takes_too_long_is_ended_and_the_others_are_not():
    async def main():
        deadlines = Deadlines(0.05)
        late = asyncio.create_task(limited(deadlines, after(60, "never")))
        soon = [asyncio.create_task(limited(deadlines, after(0, at))) for at in range(3)]
        return await asyncio.gather(late, *soon)

    assert asyncio.run(main()) == ["late", 0, 1, 2]


def test_each_has_its_time_from_its_own_beginning():
    async def main():
        deadlines = Deadlines(0.1)
        first = asyncio.create_task(limited(deadlines, after(60, "never")))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(limited(deadlines, after(60, "never")))
        await first
        assert not second.done()
        return await second

    assert asyncio.run(main()) == "late"


def test_a_task_that_another_ends_is_not_late():
    async def main():
        task = asyncio.create_task(limited(Deadlines(30.0), after(60, "never")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_what_no_task_waits_for_is_ended_too():
    async def main():
        deadlines, found = Deadlines(0.01), asyncio.get_running_loop().create_future()
        ended = asyncio.get_running_loop().create_future()
        deadlines.begin(found)
        found.add_done_callback(lambda found: ended.set_result(deadlines.end(found)))
        return await ended, found.cancelled()

    assert asyncio.run(main()) == (True, True)


def test_nothing_is_kept_of_what_has_ended():
    async def main():
        deadlines = Deadlines(0.01)
        await limited(deadlines, after(0, "done"))
        await asyncio.create_task(limited(deadlines, after(60, "never")))
        return deadlines._running, deadlines._late

    assert asyncio.run(main()) == ({}, set())
