"""Cloze sets: documents with names as `@entityN` and questions with one name blanked.

Names load on first use: the command line reads `BuildOptions` without loading numpy.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.cloze.build import build_set
    from attar.cloze.document import ClozeDocument, Question, entity_of, most_frequent_name, spell_out
    from attar.cloze.draw import draw_questions
    from attar.cloze.encoded import EncodedSplit, Ids, Places, encode_split, open_split
    from attar.cloze.epochs import DrawnQuestions, QuestionDrawer, spans
    from attar.cloze.folder_cnn import Skip
    from attar.cloze.options import SPLITS, BuildOptions
    from attar.cloze.sets import VOCABULARY, ClozeSet
    from attar.cloze.windows import number_names

_MODULES = {
    "build": ("build_set",),
    "document": (
        "ClozeDocument",
        "Question",
        "entity_of",
        "most_frequent_name",
        "spell_out",
    ),
    "draw": ("draw_questions",),
    "encoded": (
        "EncodedSplit",
        "Ids",
        "Places",
        "encode_split",
        "open_split",
    ),
    "epochs": (
        "DrawnQuestions",
        "QuestionDrawer",
        "spans",
    ),
    "folder_cnn": ("Skip",),
    "options": (
        "SPLITS",
        "BuildOptions",
    ),
    "sets": (
        "VOCABULARY",
        "ClozeSet",
    ),
    "windows": ("number_names",),
}

__all__ = [
    "SPLITS",
    "VOCABULARY",
    "BuildOptions",
    "ClozeDocument",
    "ClozeSet",
    "DrawnQuestions",
    "EncodedSplit",
    "Ids",
    "Places",
    "Question",
    "QuestionDrawer",
    "Skip",
    "build_set",
    "draw_questions",
    "encode_split",
    "entity_of",
    "most_frequent_name",
    "number_names",
    "open_split",
    "spans",
    "spell_out",
]

__getattr__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
