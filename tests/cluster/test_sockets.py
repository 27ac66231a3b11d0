"""Ray's processes listen on this machine's loopback address alone: who reaches one of its ports can run code."""

import os
from pathlib import Path

import pytest

from attar.cluster.shards import split
from benchmarks.server import family_of

from .servers import Server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Ray

# 127.0.0.1 as /proc has it, in IPv4 and mapped into IPv6, and ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LISTENING = "0A"


def listening_addresses(process: int) -> set[str]:
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                sockets[f"socket:[{fields[9]}]"] = fields[1].partition(":")[0]
    addresses = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            addresses.add(sockets.get(os.readlink(descriptor), ""))
        except OSError:
            continue  # closed meanwhile
    return addresses - {""}


def assert_on_loopback(least: int = 1) -> None:
    addresses = [listening_addresses(process) for process in family_of(os.getpid())]
    assert sum(map(bool, addresses)) >= least  # it listens somewhere
    assert set().union(*addresses) <= LOOPBACK


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
class TestListening:
    def test_ray(self, ray_cluster):
        assert_on_loopback()

    def test_shards_that_are_served(self, ray_cluster, stores, tmp_path, tiny_reader_folder):
        split(stores / "whole", tmp_path / "two", 2)
        server = Server(tmp_path / "two", "--ray", ray_cluster, "--reader", tiny_reader_folder)
        try:
            assert_on_loopback(least=4)
        finally:
            server.close()
