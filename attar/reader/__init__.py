"""Readers: text to memories, memories and questions to answers. A reader is kept in a folder."""

from attar.reader.files import DEFAULT, READER_FILES, SavedReader, load_reader, save_reader
from attar.reader.reader import Reader, answers_alone

__all__ = ["DEFAULT", "READER_FILES", "Reader", "SavedReader", "answers_alone", "load_reader", "save_reader"]
