"""Cloze sets: documents with names as `@entityN` and questions with one name blanked.

Names load on first use: the command line reads `BuildOptions` without loading numpy.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.cloze.build import build_set, renumber_names
    from attar.cloze.cnn import OnMalformed
    from attar.cloze.documents import ClozeDocument, DocumentWriter, Question, entity_number
    from attar.cloze.encoded import EncodedSplit, Ids, Offsets, encode_split, open_split
    from attar.cloze.options import SPLITS, BuildOptions
    from attar.cloze.questions import DrawnQuestions, QuestionDrawer, concatenate_ranges, draw_questions
    from attar.cloze.sets import VOCABULARY_FILE, ClozeSet

__all__ = [
    "SPLITS",
    "VOCABULARY_FILE",
    "BuildOptions",
    "ClozeDocument",
    "ClozeSet",
    "DocumentWriter",
    "DrawnQuestions",
    "EncodedSplit",
    "Ids",
    "Offsets",
    "OnMalformed",
    "Question",
    "QuestionDrawer",
    "build_set",
    "concatenate_ranges",
    "draw_questions",
    "encode_split",
    "entity_number",
    "open_split",
    "renumber_names",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
