"""Past one machine: a library in shards, read and served by Ray."""

from attar.cluster.shards import is_sharded, shard_of, shard_paths, split

__all__ = ["is_sharded", "shard_of", "shard_paths", "split"]
