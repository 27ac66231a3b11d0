"""Past one machine: a library in shards, read and served by Ray."""
