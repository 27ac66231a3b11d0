"""Past one machine: a library in shards, read and served by Ray.

Names load on first use: `attar --help` loads no numpy, and shards need no Ray.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.cluster.connection import LOCAL, connected
    from attar.cluster.encoding import Workers, encode
    from attar.cluster.refitting import fit_statistics
    from attar.cluster.serving import Replicas, served_shards
    from attar.cluster.shard import LocalShard, Shard, ShardBackend
    from attar.cluster.sharded import ShardedLibrary
    from attar.cluster.shards import is_sharded, shard_of, shard_paths, split
    from attar.cluster.sources import find_sources

__all__ = [
    "LOCAL",
    "LocalShard",
    "Replicas",
    "Shard",
    "ShardBackend",
    "ShardedLibrary",
    "Workers",
    "connected",
    "encode",
    "find_sources",
    "fit_statistics",
    "is_sharded",
    "served_shards",
    "shard_of",
    "shard_paths",
    "split",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
