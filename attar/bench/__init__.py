"""Benchmarks that users run: the paper's Table 1, the operations, and the demo."""
