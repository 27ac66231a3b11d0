"""Past one machine: a library in shards, read and served by Ray.

Names load on first use: `attar --help` loads no numpy.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.cluster.connection import connected
    from attar.cluster.serving import Replicas, served_shards
    from attar.cluster.shard import LocalShard, Shard, ShardBackend
    from attar.cluster.sharded import ShardedLibrary
    from attar.cluster.shards import is_sharded, shard_of, shard_paths, split

__all__ = [
    "LocalShard",
    "Replicas",
    "Shard",
    "ShardBackend",
    "ShardedLibrary",
    "connected",
    "is_sharded",
    "served_shards",
    "shard_of",
    "shard_paths",
    "split",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
