"""The server benchmark: loads, counts, targets and a soak test."""

import asyncio
import itertools
import re
import time

import pytest

from attar.errors import OptionError
from benchmarks import server
from benchmarks.load import Load, drive, drive_by_wrk, find_wrk
from benchmarks.server_rows import Drive, Row, ServerProcess, check_statuses, drives_for, row_of


async def answer_then(responses, connections, seconds, rate=None):
    """Drive a server that sends canned answers in turn."""
    left = iter(responses)

    async def talk(reader, writer):
        while await reader.read(1_000):
            writer.write(next(left, responses[-1]))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        return await drive(server.sockets[0].getsockname()[1], [b"x"], connections, seconds, rate)


def canned(status, body=b"ok"):
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def test_responses_are_counted_by_status():
    load = asyncio.run(answer_then([canned(503), canned(200)], 2, 0.1))
    assert load.statuses[503] == 1
    assert load.statuses[200] == len(load.latencies) == len(load.moments) > 0


def test_a_limited_load_sends_no_more_than_its_rate():
    load = asyncio.run(answer_then([canned(200)], 4, 0.5, rate=40))
    # One per connection at the start, and one per connection every tenth of a second.
    assert 1 <= load.statuses[200] <= 24


def test_another_status_is_an_error():
    load = Load()
    load.statuses[500] += 1
    with pytest.raises(OptionError, match="500"):
        check_statuses("x", load, [200, 503])


@pytest.mark.parametrize(
    ("rate", "late", "met"),
    [(200, 0.01, True), (50, 0.01, False), (200, 0.5, False)],
    ids=["both", "few", "late"],
)
def test_a_row_is_met_if_it_is_fast_and_on_time(rate, late, met):
    load = Load(1.0, [late] * rate)
    load.statuses[200] = rate
    assert row_of(Drive("x", [], 1, 1, least=100, p99=0.1), load).met is met


def test_a_row_without_a_target_is_not_judged():
    assert row_of(Drive("x", [], 1, 1), Load(1.0)).met is None


def test_every_item_of_a_request_counts():
    load = Load(2.0, [0.1] * 4)
    load.statuses[200] = 4
    row = row_of(Drive("x", [], 256, 1), load)
    assert (row.requests_per_second, row.items_per_second) == (2.0, 512.0)


def test_every_row_has_requests():
    assert all(each.requests for each in drives_for(3, 8))


def test_a_soak_sends_questions_and_documents():
    kinds = {request.split(b" ", 2)[1] for request in server.mixed_requests(3)}
    assert kinds == {b"/v1/ask", b"/v1/documents/soaked"}


@pytest.mark.skipif(find_wrk() is None, reason="wrk is not installed")
def test_wrk_sends_requests_and_counts_responses():
    async def talk(reader, writer):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(canned(200))
            await writer.drain()

    async def main():
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
            return await asyncio.to_thread(drive_by_wrk, port, [request], 2, 1)

    driven = asyncio.run(main())
    assert (driven.refused, driven.lost) == (0, 0)
    assert driven.answers > 0
    assert 0 < driven.p50 <= driven.p99


@pytest.mark.slow
def test_every_row_of_the_table_is_driven_at_a_tiny_size():
    report = server.run(server.Options(quick=True, connections=4))
    names = [row.what for row in report.rows]
    assert names[:2] == [drive.what for drive in drives_for(8, 4)]
    assert names[2:] == [
        "/ask, one question, --workers 2",
        "/ask, one question, unbatched (--max-batch 1)",
    ]
    assert report.driver == "the built-in client"
    for row in report.rows:
        assert row.statuses.keys() == {200}, row
        assert row.items_per_second > 0
    assert {(row.met, row.target) for row in report.rows} == {(None, "not judged at this size")}


@pytest.mark.slow
def test_a_soak_test_counts_responses_and_samples_memory_and_readers():
    (row,) = server.run(server.Options(quick=True, connections=4, soak=10)).rows
    assert row.statuses[200] > 0
    assert set(row.statuses) <= {200, 201}
    first, last = map(int, re.search(r"(\d+) readers first, (\d+) last", row.note).groups())
    assert 1 <= last <= first + 1


class StubServer:
    """A server process with known memory and readers."""

    port = 0

    def __init__(self, memories=(100,), readers=(1.0,)):
        self.memories, self.readers = (
            itertools.cycle(memories),
            itertools.chain(readers, itertools.repeat(readers[-1])),
        )

    def memory(self):
        return next(self.memories)

    def metric(self, name):
        assert name == "attar_store_readers"
        return next(self.readers)


def loads(monkeypatch, *results):
    """Let the next loads have these results."""
    left = iter(results)

    def drive_now(port, requests, connections, seconds, rate=None):
        if rate is not None:
            time.sleep(seconds)
        return next(left)

    monkeypatch.setattr(server, "drive_now", drive_now)


def usual(rate=100, seconds=1.0, **statuses):
    load = Load(seconds, [0.01] * rate, moments=[at * seconds / rate for at in range(rate)])
    load.statuses.update({200: rate} | {int(name[1:]): count for name, count in statuses.items()})
    return load


@pytest.mark.parametrize(
    ("readers", "met"), [((2.0,), True), ((2.0,) * 40 + (5.0,), False)], ids=["constant", "left open"]
)
def test_a_soak_test_is_missed_if_readers_stay_open(monkeypatch, readers, met):
    loads(monkeypatch, usual(), usual(s201=1))
    row = server.soak(StubServer(readers=readers), 3, 4, 0.6 / 60, lambda text: None)
    assert row.met is met


@pytest.mark.parametrize(("rates", "met"), [((100, 40), True), ((100, 60), False)])
def test_batching_is_judged_by_the_ratio_of_both_servers(monkeypatch, rates, met):
    def measure(process, drive, seconds):
        return Row(drive.what, rates[process], rates[process], 0.1, 0.2)

    monkeypatch.setattr(server, "measure", measure)
    row = server.batched_vs_unbatched(0, 1, Drive("x", [], 1, 1), 1.0)
    assert row.met is met
    assert f"{rates[0] / rates[1]:.2f} ×" in row.target


def test_the_memory_of_a_process_is_measured():
    import os
    import sys

    found = ServerProcess(0, os.getpid()).memory()
    assert (found or 0) > 2**20 if sys.platform == "linux" else found is None


def test_a_report_is_printed_with_its_notes(capsys):
    from rich.console import Console

    from attar.bench.report import this_machine

    row = Row("overload", 1.0, 1.0, None, None, note="memory 5 MB")
    server.print_report(server.Report(this_machine(), "wrk", [row]), Console(width=200))
    shown = capsys.readouterr().out
    assert "driven by wrk" in shown
    assert "- overload: memory 5 MB" in shown
