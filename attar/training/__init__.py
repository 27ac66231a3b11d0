"""Train readers on cloze sets and on real questions, evaluate them, and repeat the paper's comparison of mechanisms.

Names load on first use: the command line reads `TrainingOptions` without loading torch.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.training.batches import Batch, ClozeBatches
    from attar.training.comparison import Comparison, compare, exit_on_sigterm
    from attar.training.data import (
        EpochStream,
        TrainingData,
        open_splits,
        shared_vocabulary,
        warn_skipped,
        worker_count,
    )
    from attar.training.evaluation import Score, evaluate, memory_sizes
    from attar.training.fit import fine_tuning_options, is_main_process, train
    from attar.training.options import TrainingOptions, network_options
    from attar.training.questions.data import Passage, read_passages
    from attar.training.questions.evaluation import Measured, evaluate_questions, question_table
    from attar.training.questions.options import QuestionOptions
    from attar.training.questions.train import train_questions
    from attar.training.report import markdown_table
    from attar.training.run_folder import read_history, refuse_overwriting


__all__ = [
    "Batch",
    "ClozeBatches",
    "Comparison",
    "EpochStream",
    "Measured",
    "Passage",
    "QuestionOptions",
    "Score",
    "TrainingData",
    "TrainingOptions",
    "compare",
    "evaluate",
    "evaluate_questions",
    "exit_on_sigterm",
    "fine_tuning_options",
    "is_main_process",
    "markdown_table",
    "memory_sizes",
    "network_options",
    "open_splits",
    "question_table",
    "read_history",
    "read_passages",
    "refuse_overwriting",
    "shared_vocabulary",
    "train",
    "train_questions",
    "warn_skipped",
    "worker_count",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
