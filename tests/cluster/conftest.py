"""One Ray for all tests of the cluster: started once, on this machine, and stopped at the end."""

import logging
import os
import secrets
import warnings
from collections.abc import Iterator

import pytest

# Before Ray is imported, which reads the token then. Nothing goes over the network, and no process but this one is
# asked for metrics. Other tests run beside these: with Ray's niceness of 15 its processes would hardly run at all.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING="0",
    RAY_DISABLE_IMPORT_WARNING="1",
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_worker_niceness="0",
)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """The address of a cluster of eight CPUs, on paper; others on the network do not have its token."""
    ray = pytest.importorskip("ray")
    from benchmarks.cluster_reading import mark_processes

    mark_processes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=8,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
        )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
