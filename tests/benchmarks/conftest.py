"""The tiny encoder and the questions of tests/training."""

from tests.training.conftest import base, data, tokenizer

__all__ = ["base", "data", "tokenizer"]
