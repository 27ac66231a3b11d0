"""Measurements: every speed that the documentation claims comes from here."""

from attar.bench.demo import (
    run_demo,
)
from attar.bench.training import (
    profile_step,
)

__all__ = [
    "profile_step",
    "run_demo",
]
