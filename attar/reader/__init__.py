"""Readers: text to memories, memories and questions to answers. A reader is kept in a folder."""

from attar.reader.budget import within_budget
from attar.reader.confidence import FEATURES, Calibration
from attar.reader.files import READER_FILES, SavedReader, load_reader, save_reader
from attar.reader.fixed_size import FIXED_SIZE, FixedSizeReader
from attar.reader.names import NamesReader, answers_alone
from attar.reader.phrase_files import (
    POSITIONS,
    SavedPhrases,
    load_phrase_reader,
    save_phrase_reader,
    with_calibration,
)
from attar.reader.phrases import PhraseReader
from attar.reader.reader import SHIPPED, Reader, shipped_reader

__all__ = [
    "FEATURES",
    "FIXED_SIZE",
    "POSITIONS",
    "READER_FILES",
    "SHIPPED",
    "Calibration",
    "FixedSizeReader",
    "NamesReader",
    "PhraseReader",
    "Reader",
    "SavedPhrases",
    "SavedReader",
    "answers_alone",
    "load_phrase_reader",
    "load_reader",
    "save_phrase_reader",
    "save_reader",
    "shipped_reader",
    "with_calibration",
    "within_budget",
]
