"""Cloze sets: documents with names as `@entityN` and questions with one name blanked."""

from attar.text.cloze.document import SPLITS, ClozeDocument, Question, most_frequent_name
from attar.text.cloze.draw import draw_questions
from attar.text.cloze.encoded import EncodedDocument, encode_document
from attar.text.cloze.sets import ClozeSet

__all__ = [
    "SPLITS",
    "ClozeDocument",
    "ClozeSet",
    "EncodedDocument",
    "Question",
    "draw_questions",
    "encode_document",
    "most_frequent_name",
]
