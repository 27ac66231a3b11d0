"""Benchmarks for developers, run by `make bench`, and the made-up stories that tests use; not installed."""

import os
import sys

if "numpy" not in sys.modules:
    # BLAS reads this when numpy is first imported; rows on one thread need it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
