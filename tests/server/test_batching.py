"""Jobs that arrive during a batch form the next one, and one job's error does not affect the others."""

import asyncio
import threading
import time

import pytest

from attar.server import batching
from attar.server.batching import AskJob, AskQueue, answer_together
from attar.server.metrics import Metrics
from attar.server.problems import OverloadedError


class Slow:
    """Work that waits until it may go on, and records its batches."""

    def __init__(self):
        self.batches, self.begun, self.go = [], threading.Event(), threading.Event()

    def __call__(self, jobs):
        self.batches.append(list(jobs))
        self.begun.set()
        assert self.go.wait(30)
        return [[job.names[0] * 2] for job in jobs]


def job_of(number, work=1):
    return AskJob([str(number)], ["Who?"], 5, 0, [work])


def run(work, max_batch=256, max_queue=1_000):
    """Run a coroutine function on a queue whose first job, 0, is at work."""
    slow = Slow()

    async def main():
        queue = AskQueue(slow, Metrics(), max_queue, max_batch)
        first = queue.submit(job_of(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        result = await work(queue, slow)
        slow.go.set()
        await first
        await queue.close()
        return result

    return asyncio.run(main()), [[int(job.names[0]) for job in batch] for batch in slow.batches]


def submit(count, weight=1):
    async def work(queue, slow):
        jobs = [queue.submit(job_of(number, weight)) for number in range(1, count + 1)]
        slow.go.set()
        return await asyncio.gather(*jobs)

    return work


@pytest.mark.parametrize(
    ("count", "weight", "max_batch", "batches"),
    [(4, 1, 256, [[0], [1, 2, 3, 4]]), (5, 1, 2, [[0], [1, 2], [3, 4], [5]]), (2, 9, 4, [[0], [1], [2]])],
    ids=["together", "at most max_batch", "a heavier job is alone"],
)
def test_jobs_that_arrive_during_a_batch_form_the_next_ones(count, weight, max_batch, batches):
    done = [[str(number) * 2] for number in range(1, count + 1)]
    assert run(submit(count, weight), max_batch=max_batch) == (done, batches)


def test_the_queue_is_as_long_as_what_is_answered_in_time(monkeypatch):
    """Work of 100 jobs per second, at most 0.1 s of waiting: no more than about ten jobs wait."""
    monkeypatch.setattr(batching, "_MAX_WAIT", 0.1)

    def work(jobs):
        time.sleep(0.01 * len(jobs))
        return [[] for _ in jobs]

    async def main():
        queue = AskQueue(work, Metrics(), max_queue=1_000, max_batch=4)
        # Nothing is known about the rate at first; each further round is measured by the batches before.
        for _ in range(8):
            accepted = []
            for job in range(20):
                try:
                    accepted.append(queue.submit(job_of(job)))
                except OverloadedError:
                    break
            await asyncio.gather(*accepted)
        await queue.close()
        return len(accepted)

    assert 1 <= asyncio.run(main()) <= 16


def test_an_answer_does_not_depend_on_how_many_another_job_of_the_batch_asks_for(make):
    """More answers are made of more phrases, and each of these takes its share."""
    library = make().library
    jobs = [AskJob(["0"], ["Who left?"], top, 0, [1]) for top in (1, 1_000)]
    assert answer_together(library, jobs) == [answer_together(library, [job])[0] for job in jobs]
