"""Cloze sets: documents with names as `@entityN` and questions with one name blanked."""

from attar.cloze.build import (
    BuildOptions,
    build_set,
)
from attar.cloze.document import (
    SPLITS,
    ClozeDocument,
    Question,
    entity_of,
    most_frequent_name,
    spell_out,
)
from attar.cloze.draw import (
    draw_questions,
)
from attar.cloze.encoded import (
    EncodedSplit,
    Ids,
    Places,
    encode_split,
    open_split,
)
from attar.cloze.epochs import (
    DrawnQuestions,
    QuestionDrawer,
    spans,
)
from attar.cloze.folder_cnn import (
    Skip,
)
from attar.cloze.sets import (
    VOCABULARY,
    ClozeSet,
)
from attar.cloze.windows import (
    number_names,
)

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
