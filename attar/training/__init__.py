"""Readers from cloze sets: batches, training, evaluation, and the paper's comparison."""

from attar.training.batches import (
    Batch,
    ClozeBatches,
)
from attar.training.compare import (
    Comparison,
    compare,
)
from attar.training.data import (
    EpochStream,
    leave_out,
    open_splits,
    workers_for,
)
from attar.training.evaluate import (
    Score,
    evaluate,
)
from attar.training.fit import (
    HISTORY,
    RUN,
    train,
)
from attar.training.folders import (
    need_writable,
)
from attar.training.lifeline import (
    sigterm_ends,
)
from attar.training.options import (
    TrainingOptions,
    network_options,
)
from attar.training.report import (
    step_between,
)
from attar.training.sets import (
    Sets,
)
from attar.training.sizes import (
    measure_memories,
    sample_by_source,
)
from attar.training.start import (
    check_settled,
    settled_by,
)
from attar.training.trainer import (
    leads,
)
from attar.training.words import (
    vocabulary_of,
)

__all__ = [
    "HISTORY",
    "RUN",
    "Batch",
    "ClozeBatches",
    "Comparison",
    "EpochStream",
    "Score",
    "Sets",
    "TrainingOptions",
    "check_settled",
    "compare",
    "evaluate",
    "leads",
    "leave_out",
    "measure_memories",
    "need_writable",
    "network_options",
    "open_splits",
    "sample_by_source",
    "settled_by",
    "sigterm_ends",
    "step_between",
    "train",
    "vocabulary_of",
    "workers_for",
]
