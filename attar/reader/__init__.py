"""Readers: text to memories, memories and questions to answers; kept in a folder."""

from attar.reader.answers import Answer
from attar.reader.explain import Explanation
from attar.reader.folder import load_reader, save_reader
from attar.reader.reader import Reader

__all__ = ["Answer", "Explanation", "Reader", "load_reader", "save_reader"]
