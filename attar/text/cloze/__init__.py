"""Cloze sets: documents with names as `@entityN` and questions with one name blanked."""

from attar.text.cloze.document import SPLITS, ClozeDocument, Question, most_frequent_name
from attar.text.cloze.draw import draw_questions
from attar.text.cloze.encoded import EncodedSplit, encode_split, open_split
from attar.text.cloze.sets import ClozeSet

__all__ = [
    "SPLITS",
    "ClozeDocument",
    "ClozeSet",
    "EncodedSplit",
    "Question",
    "draw_questions",
    "encode_split",
    "most_frequent_name",
    "open_split",
]
