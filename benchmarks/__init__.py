"""Benchmarks for developers, run by `make bench`, and the made-up stories that tests use; not installed."""
