"""Records on disk, one per document, in LMDB, with atomic and durable changes."""
