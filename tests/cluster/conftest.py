"""One Ray for all tests of the cluster: started once, on this machine, and stopped at the end."""

import faulthandler
import logging
import os
import secrets
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from attar.cluster.shards import split
from attar.library.library import Library
from attar.reader.reader import Reader

from .servers import TEXTS

# Before Ray is imported, which reads the token then. Nothing goes over the network, and no process but this one is
# asked for metrics. Other tests run beside these: with Ray's niceness of 15 its processes would hardly run at all. With
# the last, Ray listens on 127.0.0.1 alone.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING="0",
    RAY_DISABLE_IMPORT_WARNING="1",
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_worker_niceness="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
)
# Seconds for a test and its fixtures, which may start Ray and a server: many times what they need.
LIMIT = 600


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """The address of a cluster of eight CPUs and two GPUs, on paper; others on the network do not have its token."""
    ray = pytest.importorskip("ray")
    from benchmarks.cluster_reading import mark_processes

    mark_processes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=8,
            num_gpus=2,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
        )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory, tiny_reader: Reader) -> Path:
    """A library, `whole`, and the same in two shards, `shards`, that nobody changes."""
    folder = tmp_path_factory.mktemp("stores")
    with Library(folder / "whole", tiny_reader) as library:
        library.add_many(TEXTS.items())
    split(folder / "whole", folder / "shards", 2)
    return folder


@pytest.fixture
def whole(stores: Path, tiny_reader: Reader) -> Iterator[Library]:
    with Library(stores / "whole", tiny_reader, read_only=True) as library:
        yield library


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a run that hangs, with the stacks of all threads: Ray waits for ever for a process that does."""

    def fail(*_: object) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__)
        pytest.exit(f"{item.nodeid}: not done after {LIMIT} s", returncode=1)

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
