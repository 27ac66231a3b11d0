"""What a document becomes: its numbers in one of six forms, their algebra, their bytes. numpy, no torch."""

from attar.memory.company import (
    Company,
    weighed_many,
)
from attar.memory.counting import (
    count_companies,
)
from attar.memory.forms import (
    FORMS,
    FORMS_OF,
    Floats,
    look_up_hidden,
    matrix_of,
    spmv_for,
    stays_states,
)
from attar.memory.memory import (
    Memory,
)
from attar.memory.precision import (
    widened,
)
from attar.memory.record import (
    NUMBERS_AT,
    RecordLayout,
)

__all__ = [
    "FORMS",
    "FORMS_OF",
    "NUMBERS_AT",
    "Company",
    "Floats",
    "Memory",
    "RecordLayout",
    "count_companies",
    "look_up_hidden",
    "matrix_of",
    "spmv_for",
    "stays_states",
    "weighed_many",
    "widened",
]
