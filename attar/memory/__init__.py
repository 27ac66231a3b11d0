"""What is kept of a document: a memory in one of eight forms, its algebra and its bytes. numpy only, no torch."""

from attar.memory.algebra import replace_tail
from attar.memory.budget import FIXED_SIZE, within_budget
from attar.memory.cooccurrence import Cooccurrence, weigh_cooccurrences
from attar.memory.forms import (
    FORMS,
    FORMS_OF,
    INDEXED,
    PRECISIONS,
    RIDGE,
    Floats,
    look_up_hidden,
    states_are_smaller,
)
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT, PhraseIndex
from attar.memory.record import NUMBERS_AT, RecordLayout

__all__ = [
    "FIXED_SIZE",
    "FORMS",
    "FORMS_OF",
    "INDEXED",
    "JOINT",
    "NUMBERS_AT",
    "PRECISIONS",
    "RIDGE",
    "Cooccurrence",
    "Floats",
    "Memory",
    "PhraseIndex",
    "RecordLayout",
    "look_up_hidden",
    "replace_tail",
    "states_are_smaller",
    "weigh_cooccurrences",
    "within_budget",
]
