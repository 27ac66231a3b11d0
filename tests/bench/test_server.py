"""The server's bench: what it drives, counts and calls enough."""

import asyncio

import pytest

from attar.bench.load import Load, drive
from attar.bench.server import Drive, drives_for, row_of


async def answer_then(responses, connections, seconds):
    """Drive a server that sends canned answers in turn."""
    left = iter(responses)

    async def talk(reader, writer):
        while await reader.read(1_000):
            writer.write(next(left, responses[-1]))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        return await drive(server.sockets[0].getsockname()[1], [b"x"], connections, seconds)


def canned(status, body=b"ok"):
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def test_answers_are_counted_by_their_status():
    load = asyncio.run(answer_then([canned(503), canned(200)], 2, 0.1))
    assert load.statuses[503] == 1
    assert load.statuses[200] == len(load.latencies) > 0


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
