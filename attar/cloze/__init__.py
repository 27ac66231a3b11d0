"""Cloze sets: documents with names as `@entityN` and questions with one name blanked."""

from attar.cloze.build import BuildOptions, build_set, renumber_names
from attar.cloze.cnn import OnMalformed, write_folder
from attar.cloze.documents import (
    SPLITS,
    ClozeDocument,
    DocumentWriter,
    Question,
    entity_number,
    most_frequent_name,
)
from attar.cloze.encoded import EncodedSplit, Ids, Offsets, encode_split, open_split
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
    "most_frequent_name",
    "open_split",
    "renumber_names",
    "write_folder",
]
