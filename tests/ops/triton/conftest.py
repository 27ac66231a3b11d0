"""Short blocks for Triton's interpreter."""

import pytest

from attar.ops.triton import gates as gate_kernels
from attar.ops.triton import scan as scan_kernels

from .agreement import ON_CUDA


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """It goes through sums number by number, real or not: blocks of 16 for those of 64 and more."""
    if not ON_CUDA:
        monkeypatch.setattr(gate_kernels, "BLOCK", 16)
        monkeypatch.setattr(scan_kernels, "EVERY", 16)
