"""The server's bench: what it drives, counts and calls enough."""

import asyncio

import pytest

from attar.bench import server
from attar.bench.load import Load, drive
from attar.bench.server_overload import mixed, seconds_until_full_speed
from attar.bench.server_process import Served
from attar.bench.server_rows import Drive, Row, drives_for, refuse_others, row_of
from attar.bench.server_wrk import drive_by_wrk, wrk
from attar.errors import OptionError


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


def test_answers_are_counted_by_their_status():
    load = asyncio.run(answer_then([canned(503), canned(200)], 2, 0.1))
    assert load.statuses[503] == 1
    assert load.statuses[200] == len(load.latencies) == len(load.moments) > 0


def test_a_paced_load_sends_no_more_than_its_rate():
    load = asyncio.run(answer_then([canned(200)], 4, 0.5, rate=40))
    # One a connection when it begins, and one a tenth of a second from then on.
    assert 1 <= load.statuses[200] <= 24


def test_an_answer_of_another_status_is_a_failure():
    load = Load()
    load.statuses[500] += 1
    with pytest.raises(OptionError, match="500"):
        refuse_others("x", load, [200, 503])


@pytest.mark.parametrize(
    ("rate", "late", "met"),
    [(200, 0.01, True), (50, 0.01, False), (200, 0.5, False)],
    ids=["both", "few", "late"],
)
def test_a_row_is_met_if_it_is_fast_and_on_time(rate, late, met):
    load = Load(1.0, [late] * rate)
    load.statuses[200] = rate
    assert row_of(Drive("x", [], 1, 1, least=100, p99=0.1), load).met is met


def test_a_row_without_a_target_is_only_told():
    assert row_of(Drive("x", [], 1, 1), Load(1.0)).met is None


def test_a_request_of_many_counts_each():
    load = Load(2.0, [0.1] * 4)
    load.statuses[200] = 4
    row = row_of(Drive("x", [], 256, 1), load)
    assert (row.requests_a_second, row.each_a_second) == (2.0, 512.0)


def test_every_row_has_requests():
    assert all(each.requests for each in drives_for(3, 8))


def test_a_server_that_stays_slow_is_not_back():
    assert seconds_until_full_speed(Load(2.0, moments=[0.1, 1.1]), 100.0) is None


def test_a_soak_asks_looks_up_and_writes():
    kinds = {request.split(b" ", 2)[1] for request in mixed(3)}
    assert kinds == {b"/v1/ask", b"/v1/lookup", b"/v1/documents/soaked"}


@pytest.mark.skipif(wrk() is None, reason="wrk is not installed")
def test_wrk_drives_and_counts():
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
def test_the_whole_table_in_small(tmp_path):
    report = server.run(server.Wanted(quick=True, connections=4))
    assert len(report.rows) == 8
    assert report.driver == "the built-in client"
    told = {row.what: row for row in report.rows}
    assert told["/ask, one question"].statuses.keys() == {200}
    assert "unbatched" in report.rows[-2].what
    assert "full speed" in report.rows[-1].note


@pytest.mark.slow
def test_a_soak_in_small():
    report = server.run(server.Wanted(quick=True, connections=4, soak=10))
    (row,) = report.rows
    assert "readers" in row.note
    assert set(row.statuses) <= {200, 201}


def test_the_memory_of_a_process_is_seen():
    import os
    import sys

    found = Served(0, os.getpid()).memory()
    assert (found or 0) > 2**20 if sys.platform == "linux" else found is None


def test_a_report_is_printed_with_its_notes(capsys):
    from rich.console import Console

    from attar.bench.machine import this_machine

    row = Row("overload", 1.0, 1.0, None, None, note="memory 5 MB")
    server.print_report(server.Report(this_machine(), "wrk", [row]), Console(width=200))
    shown = capsys.readouterr().out
    assert "driven by wrk" in shown
    assert "- overload: memory 5 MB" in shown
