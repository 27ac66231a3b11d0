"""Readers: text to memories, memories and questions to answers; kept in a folder."""

from attar.reader.checks import (
    answers_alone,
)
from attar.reader.folder import (
    DEFAULT,
    SavedReader,
    load_reader,
    save_reader,
)
from attar.reader.reader import (
    Reader,
)

__all__ = [
    "DEFAULT",
    "Reader",
    "SavedReader",
    "answers_alone",
    "load_reader",
    "save_reader",
]
