"""A cluster of Ray on this machine, for all tests of the session that need one."""

import os
import secrets
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """The address of a cluster that ends with the session; others on the network do not have its token."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray

        ray.init(
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            num_cpus=8,
            object_store_memory=100 * 2**20,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()
