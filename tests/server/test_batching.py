"""Jobs that arrive during a batch form the next one, and one job's error does not affect the others."""

import asyncio
import itertools
import threading
import time

import pytest

from attar.server import batching
from attar.server.batching import Batcher, SerialExecutor, isolate_failures
from attar.server.problems import ProblemError


class Slow:
    """Work that waits until it may go on, and records its batches."""

    def __init__(self):
        self.batches, self.begun, self.go = [], threading.Event(), threading.Event()

    def __call__(self, jobs):
        self.batches.append(list(jobs))
        self.begun.set()
        assert self.go.wait(30)
        return [job * 10 for job in jobs]


def run(work, max_batch=256, max_queue=1_000):
    """Run a coroutine function on a batcher of slow work."""
    slow = Slow()

    async def main():
        batcher = Batcher(slow, name="test", max_batch=max_batch, max_queue=max_queue)
        result = await work(batcher, slow)
        await batcher.close()
        return result

    return asyncio.run(main()), slow


def ask_while_busy(count, weight=1):
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.submit(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        others = [asyncio.ensure_future(batcher.submit(job, weight)) for job in range(1, count + 1)]
        await asyncio.sleep(0)
        slow.go.set()
        return await asyncio.gather(first, *others)

    return work


def test_a_job_of_an_idle_batcher_starts_at_once():
    async def work(batcher, slow):
        slow.go.set()
        return await batcher.submit(3)

    result, slow = run(work)
    assert (result, slow.batches) == (30, [[3]])


def test_jobs_of_one_loop_iteration_are_one_batch():
    async def work(batcher, slow):
        slow.go.set()
        return await asyncio.gather(*(batcher.submit(job) for job in range(5)))

    result, slow = run(work)
    assert (result, slow.batches) == ([0, 10, 20, 30, 40], [[0, 1, 2, 3, 4]])


def test_jobs_that_arrive_during_a_batch_form_the_next_one():
    result, slow = run(ask_while_busy(4))
    assert result == [0, 10, 20, 30, 40]
    assert slow.batches == [[0], [1, 2, 3, 4]]


def test_a_batch_has_at_most_max_batch_jobs():
    _, slow = run(ask_while_busy(5), max_batch=2)
    assert slow.batches == [[0], [1, 2], [3, 4], [5]]


def test_a_job_heavier_than_max_batch_is_a_batch_of_its_own():
    _, slow = run(ask_while_busy(2, weight=9), max_batch=4)
    assert slow.batches == [[0], [1], [2]]


def test_a_full_queue_refuses_with_503():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.submit(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        second = asyncio.ensure_future(batcher.submit(1, 2))
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as refused:
            await batcher.submit(2)
        slow.go.set()
        await asyncio.gather(first, second)
        return refused.value.status

    assert run(work, max_queue=2)[0] == 503


def test_cancelled_jobs_are_skipped():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.submit(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        gone, stays = (asyncio.ensure_future(batcher.submit(job)) for job in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        await asyncio.gather(first, stays)

    assert run(work)[1].batches == [[0], [2]]


def test_close_finishes_queued_jobs_and_refuses_new_ones():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.submit(1))
        await asyncio.to_thread(slow.begun.wait, 30)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="is stopping"):
            await batcher.submit(2)
        slow.go.set()
        await closing
        return await first

    assert run(work)[0] == 10


def test_an_error_of_the_whole_batch_is_raised_to_every_caller():
    async def main():
        def broken(jobs):
            raise RuntimeError("broken")

        batcher = Batcher(broken, name="test", max_batch=8, max_queue=8)
        found = await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)
        await batcher.close()
        return [type(each) for each in found]

    assert asyncio.run(main()) == [RuntimeError, RuntimeError]


def test_the_failing_job_is_found_in_few_tries():
    tries = []

    def invert(numbers):
        tries.append(len(numbers))
        return [1 / number for number in numbers]

    found = isolate_failures(invert)([1] * 100 + [0] + [1] * 155)
    assert [at for at, each in enumerate(found) if isinstance(each, ZeroDivisionError)] == [100]
    assert len(tries) <= 2 * 8 + 1


def test_concurrent_questions_are_counted_as_fewer_batches(served):
    question = {"document": "0", "question": "Who left?"}
    responses = served.call_concurrently([("POST", "/v1/ask", question)] * 40)
    assert {response.status_code for response in responses} == {200}
    lines = served.get("/metrics").text.splitlines()
    counted = dict(line.rsplit(" ", 1) for line in lines if line.startswith("attar_batch_size"))
    assert float(counted["attar_batch_size_sum"]) == 40
    assert float(counted["attar_batch_size_count"]) < 40


def test_only_the_bad_question_of_a_batch_is_refused(served):
    good, bad = {"document": "0", "question": "Who left?"}, {"document": "no", "question": "Who left?"}
    responses = served.call_concurrently([("POST", "/v1/ask", body) for body in (good, bad, good, bad, good)])
    assert [response.status_code for response in responses] == [200, 404, 200, 404, 200]


def test_each_request_of_a_batch_gets_its_own_number_of_answers(served):
    asked = [{"document": "0", "question": "Who left?", "top": top} for top in (1, 3, 2)]
    responses = served.call_concurrently([("POST", "/v1/ask", body) for body in asked])
    assert [len(response.json()["answers"]) for response in responses] == [1, 3, 2]


def test_questions_are_answered_while_a_write_runs(served, monkeypatch):
    add, started, go = served.library.add, threading.Event(), threading.Event()

    def wait_and_add(*arguments, **options):
        started.set()
        assert go.wait(30)
        return add(*arguments, **options)

    monkeypatch.setattr(served.library, "add", wait_and_add)

    async def write_and_ask():
        text, question = {"text": "Then Ann met Bob."}, {"document": "0", "question": "Who left?"}
        writing = asyncio.create_task(served.http.put("/v1/documents/new", json=text))
        await asyncio.to_thread(started.wait, 30)
        answered = await served.http.post("/v1/ask", json=question)
        is_written = writing.done()
        go.set()
        return answered.status_code, is_written, (await writing).status_code

    assert served.run(write_and_ask()) == (200, False, 201)


def test_slow_jobs_run_one_after_the_other_and_a_full_queue_refuses():
    order, go = [], threading.Event()

    def job(number):
        assert go.wait(30)
        order.append(number)

    async def main():
        executor = SerialExecutor("test")
        jobs = [asyncio.ensure_future(executor.run(lambda at=at: job(at))) for at in range(64)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="overloaded"):
            await executor.run(lambda: None)
        go.set()
        await asyncio.gather(*jobs)
        assert executor.idle
        await executor.close()

    asyncio.run(main())
    assert order == list(range(64))


def test_the_queue_is_as_long_as_what_is_answered_in_time(monkeypatch):
    """Work of 100 jobs per second, at most 0.1 s of waiting: no more than about ten jobs wait."""
    monkeypatch.setattr(batching, "_MAX_WAIT", 0.1)

    def work(jobs):
        time.sleep(0.01 * len(jobs))
        return jobs

    async def main():
        batcher = Batcher(work, name="test", max_batch=4, max_queue=1_000)
        accepted, refused = [], 0
        # Nothing is known about the rate at first; each further round is measured by the batches before.
        for _ in range(8):
            for job in range(20):
                try:
                    accepted.append(batcher.submit(job))
                except ProblemError:
                    refused += 1
            await accepted[-1]
            await asyncio.sleep(0)
        room = next(weight for weight in itertools.count(1) if not _has_room(batcher, weight))
        await asyncio.gather(*accepted)
        await batcher.close()
        return refused, room

    refused, room = asyncio.run(main())
    assert refused > 0
    assert 1 <= room <= 12


def _has_room(batcher, weight):
    # A queue that is empty takes a job of any weight.
    batcher._weight += 1
    try:
        return batcher._has_room(weight)
    finally:
        batcher._weight -= 1


def test_a_cancelled_caller_leaves_a_running_job_counted_and_drops_a_waiting_one():
    begun, go, ran = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert go.wait(30)
        ran.append("first")

    async def main():
        executor = SerialExecutor("test")
        first = asyncio.create_task(executor.run(work))
        await asyncio.to_thread(begun.wait, 30)
        second = asyncio.create_task(executor.run(lambda: ran.append("second")))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert not executor.idle
        go.set()
        await executor.close()
        assert executor.idle

    asyncio.run(main())
    assert ran == ["first"]
