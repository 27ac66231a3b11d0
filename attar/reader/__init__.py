"""Readers: text to memories, memories and questions to answers. A reader is kept in a folder.

Names load on first use: which reader a library has is known without torch.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.reader.confidence import FEATURES, Calibration
    from attar.reader.files import READER_FILES, SavedReader, load_reader, save_reader
    from attar.reader.fixed_size import FixedSizeReader
    from attar.reader.folders import (
        DEFAULT,
        SHIPPED,
        find_reader,
        read_fingerprint,
        reader_folder,
        shipped_reader,
    )
    from attar.reader.names import NamesReader, answers_alone
    from attar.reader.phrase_config import POSITIONS
    from attar.reader.phrase_files import (
        SavedPhrases,
        load_phrase_reader,
        save_phrase_reader,
        with_calibration,
    )
    from attar.reader.phrase_scores import ScoredPhrases, Shares, combined, total_of
    from attar.reader.phrases import PhraseReader
    from attar.reader.reader import Reader

__all__ = [
    "DEFAULT",
    "FEATURES",
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
    "ScoredPhrases",
    "Shares",
    "answers_alone",
    "combined",
    "find_reader",
    "load_phrase_reader",
    "load_reader",
    "read_fingerprint",
    "reader_folder",
    "save_phrase_reader",
    "save_reader",
    "shipped_reader",
    "total_of",
    "with_calibration",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
