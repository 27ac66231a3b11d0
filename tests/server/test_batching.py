"""What arrives together is answered together, and one's fault is nobody else's."""

import asyncio
import threading

import pytest

from attar.server.batching import Batcher, apart
from attar.server.problems import Refusal


class Slow:
    """Work that begins when it may, and remembers its batches."""

    def __init__(self):
        self.batches, self.begun, self.go = [], threading.Event(), threading.Event()

    def __call__(self, jobs):
        self.batches.append(list(jobs))
        self.begun.set()
        assert self.go.wait(30)
        return [job * 10 for job in jobs]


def run(work, at_once=256, limit=1_000):
    """Run a coroutine function on a batcher of slow work."""
    slow = Slow()

    async def main():
        batcher = Batcher(slow, at_once=at_once, limit=limit, name="test")
        result = await work(batcher, slow)
        await batcher.close()
        return result

    return asyncio.run(main()), slow


def ask_while_busy(count, weight=1):
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.begin(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        others = [asyncio.ensure_future(batcher.begin(job, weight)) for job in range(1, count + 1)]
        await asyncio.sleep(0)
        slow.go.set()
        return await asyncio.gather(first, *others)

    return work


def test_one_alone_is_worked_on_at_once():
    async def work(batcher, slow):
        slow.go.set()
        return await batcher.begin(3)

    result, slow = run(work)
    assert (result, slow.batches) == (30, [[3]])


def test_what_came_in_one_turn_of_the_loop_is_one_batch():
    async def work(batcher, slow):
        slow.go.set()
        return await asyncio.gather(*(batcher.begin(job) for job in range(5)))

    result, slow = run(work)
    assert (result, slow.batches) == ([0, 10, 20, 30, 40], [[0, 1, 2, 3, 4]])


def test_what_arrives_meanwhile_is_the_next_batch():
    result, slow = run(ask_while_busy(4))
    assert result == [0, 10, 20, 30, 40]
    assert slow.batches == [[0], [1, 2, 3, 4]]


def test_a_batch_has_its_limit():
    _, slow = run(ask_while_busy(5), at_once=2)
    assert slow.batches == [[0], [1, 2], [3, 4], [5]]


def test_a_job_heavier_than_a_batch_is_one_alone():
    _, slow = run(ask_while_busy(2, weight=9), at_once=4)
    assert slow.batches == [[0], [1], [2]]


def test_a_full_queue_refuses():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.begin(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        second = asyncio.ensure_future(batcher.begin(1, 2))
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as refusal:
            await batcher.begin(2)
        slow.go.set()
        await asyncio.gather(first, second)
        return refusal.value.status

    assert run(work, limit=2)[0] == 503


def test_who_has_gone_is_not_worked_for():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.begin(0))
        await asyncio.to_thread(slow.begun.wait, 30)
        gone, stays = (asyncio.ensure_future(batcher.begin(job)) for job in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        await asyncio.gather(first, stays)

    assert run(work)[1].batches == [[0], [2]]


def test_closing_finishes_what_was_taken_and_takes_no_more():
    async def work(batcher, slow):
        first = asyncio.ensure_future(batcher.begin(1))
        await asyncio.to_thread(slow.begun.wait, 30)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="one that stops"):
            await batcher.begin(2)
        slow.go.set()
        await closing
        return await first

    assert run(work)[0] == 10


def test_a_fault_of_the_work_is_told_to_all_who_wait():
    async def main():
        def broken(jobs):
            raise RuntimeError("broken")

        batcher = Batcher(broken, at_once=8, limit=8, name="test")
        found = await asyncio.gather(batcher.begin(1), batcher.begin(2), return_exceptions=True)
        await batcher.close()
        return [type(each) for each in found]

    assert asyncio.run(main()) == [RuntimeError, RuntimeError]


def test_a_fault_is_found_in_few_tries():
    tries = []

    def invert(numbers):
        tries.append(len(numbers))
        return [1 / number for number in numbers]

    found = apart(invert)([1] * 100 + [0] + [1] * 155)
    assert [at for at, each in enumerate(found) if isinstance(each, ZeroDivisionError)] == [100]
    assert len(tries) <= 2 * 8 + 1


def test_questions_that_arrive_together_are_one_batch_in_the_metrics(served):
    question = {"document": "0", "question": "Who left?"}
    responses = served.together([("POST", "/v1/ask", question)] * 40)
    assert {response.status_code for response in responses} == {200}
    lines = served.get("/metrics").text.splitlines()
    counted = dict(line.rsplit(" ", 1) for line in lines if line.startswith("attar_batch_size"))
    assert float(counted['attar_batch_size_sum{work="ask"}']) == 40
    assert float(counted['attar_batch_size_count{work="ask"}']) < 40


def test_a_bad_question_among_good_ones_is_refused_alone(served):
    good, bad = {"document": "0", "question": "Who left?"}, {"document": "no", "question": "Who left?"}
    responses = served.together([("POST", "/v1/ask", body) for body in (good, bad, good, bad, good)])
    assert [response.status_code for response in responses] == [200, 404, 200, 404, 200]


def test_each_of_a_batch_has_as_many_answers_as_it_asked_for(served):
    asked = [{"document": "0", "question": "Who left?", "top": top} for top in (1, 3, 2)]
    responses = served.together([("POST", "/v1/ask", body) for body in asked])
    assert [len(response.json()["answers"]) for response in responses] == [1, 3, 2]


def test_writes_and_questions_go_on_together(served):
    question = {"document": "0", "question": "Who left?"}
    text = {"text": "Then Ann met Bob."}
    calls = [
        ("POST", "/v1/ask", question),
        ("PUT", "/v1/documents/new", text),
        ("POST", "/v1/documents/1/append", text),
    ]
    assert {response.status_code for response in served.together(calls * 5)} == {200, 201}
