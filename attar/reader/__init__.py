"""Readers: text to memories, memories and questions to answers. A reader is kept in a folder."""

from attar.reader.files import READER_FILES, SavedReader, load_reader, save_reader
from attar.reader.names import NamesReader, answers_alone
from attar.reader.phrase_files import SavedPhrases, load_phrase_reader, save_phrase_reader
from attar.reader.phrases import PhraseReader
from attar.reader.reader import SHIPPED, Reader, shipped_reader

__all__ = [
    "READER_FILES",
    "SHIPPED",
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
]
