"""Training: Adam on the questions of an epoch, then validation; it resumes, and keeps the best weights. Accuracy."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader

from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_file, lock_run, refuse_existing
from attar.paper.batches import Batch, ClozeBatches, load_in_background
from attar.paper.network import NETWORK_FILES, Network, save_network
from attar.paper.options import TrainingOptions
from attar.paper.sets import ClozeSet, EncodedSplit
from attar.paper.words import Vocabulary
from attar.progress import Progress, ignore_progress

# In the network's folder.
RUN = "run"
# In the run's folder.
HISTORY = "history.json"
LAST = "last.ckpt"
BEST = "best.ckpt"
_NEW_RUN = "start a new run without --resume"
# One process prepares 10,000 documents per second, less than an H200 takes with a GRU of hidden size 100.
_GPU_WORKERS = 2
# Validation keeps no gradients, so its batches are larger.
_VALIDATION_BATCHES = 4
# Seeds dropout apart for each epoch of each seed, so that a resumed run continues as if it had not stopped.
_EPOCHS_PER_SEED = 1_000_003
# The largest norm of a step's gradient.
_GRADIENT = 5.0
# The learning rate rises from a twentieth of its peak, in one step of fifty.
_FIRST_LR = 0.05
_WARMUP = 0.02

_RESAMPLES = 1000
# The answer without any candidate: always wrong.
NO_GUESS = -1
WHOLE, NETWORK = "all", "network"
BASELINES = ("most frequent name", "most frequent name not in the question")

Row = dict[str, float]


@dataclass(frozen=True)
class TrainingData:
    vocabulary: Vocabulary
    training: EncodedSplit
    validation: EncodedSplit

    @classmethod
    def of(cls, cloze_set: ClozeSet) -> "TrainingData":
        words = cloze_set.vocabulary()
        return cls(words, cloze_set.encoded("training", words), cloze_set.encoded("validation", words))

    def fingerprints(self) -> dict[str, str]:
        return {
            "vocabulary": self.vocabulary.fingerprint,
            "training documents": self.training.fingerprint,
            "validation documents": self.validation.fingerprint,
        }


def train(
    options: TrainingOptions,
    *,
    resume: bool = False,
    replace: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Progress = ignore_progress,
) -> list[Row]:
    """Train a network and write its folder; checkpoints and history are in its subfolder `run`. Returns the history.

    A folder with a network or a run is refused unless `resume` continues it or `replace` starts again. `say` is
    called with one line per epoch.
    """
    folder = options.folder
    last = folder / RUN / LAST
    resume = resume and last.is_file()
    if not (resume or replace):
        files = [*(folder / name for name in NETWORK_FILES), last]
        refuse_existing(files, "add --resume or --replace, or choose another --out")
    cloze_set = ClozeSet.open(options.data, progress=progress)
    cloze_set.check_splits("training", "validation")
    with lock_run(folder / RUN):
        data = TrainingData.of(cloze_set)
        if torch.cuda.is_available():
            torch.set_num_threads(1)  # the CPU only launches kernels, and parallel runs share its cores
            torch.set_float32_matmul_precision("high")
        run = TrainingRun(options, data)
        if resume:
            run.load(last)
        run.finish(say, progress)
        run.network.load_state_dict(_load(folder / RUN / BEST))
        about = {"training": options.described(), "history": run.history}
        save_network(folder, run.network, data.vocabulary, about)
    return run.history


class TrainingRun:
    """A network with its optimizer and schedule, from the first epoch or from a checkpoint to the last."""

    def __init__(self, options: TrainingOptions, data: TrainingData) -> None:
        self.options, self.data = options, data
        self.history: list[Row] = []  # the metrics of the epochs that are done
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(options.seed)
        self.network = Network(options, len(data.vocabulary), data.vocabulary.entities)
        self.network.to(self.device)
        # A set without questions has them drawn, new ones per epoch.
        draw = options.questions if len(data.training.answers) == 0 else 0
        size = options.batch_size
        self.batches = ClozeBatches(data.training, size=size, shuffle=True, draw=draw, seed=options.seed)
        self.validation = ClozeBatches(data.validation, size=_VALIDATION_BATCHES * size)
        on_gpu = self.device == "cuda"
        self.optimizer = torch.optim.Adam(self.network.parameters(), options.lr, fused=on_gpu)
        # A linear warm-up, then a cosine down to 0.
        steps = options.epochs * len(self.batches)
        warmup = max(1, round(_WARMUP * steps))
        rising = LinearLR(self.optimizer, _FIRST_LR, 1.0, warmup)
        falling = CosineAnnealingLR(self.optimizer, max(1, steps - warmup))
        self.schedule = SequentialLR(self.optimizer, [rising, falling], [warmup])

    def finish(self, say: Callable[[str], None], progress: Progress) -> None:
        """Train the epochs that are left; each ends with a checkpoint."""
        folder, epochs = self.options.folder / RUN, self.options.epochs
        self.batches.epoch = len(self.history)
        batches = load_in_background(self.batches, _GPU_WORKERS if self.device == "cuda" else 0)
        while len(self.history) < epochs:
            best = max((row["validation_accuracy"] for row in self.history), default=-1.0)
            row = self.train_epoch(batches, progress)
            self.history.append(row)
            if row["validation_accuracy"] > best:
                _save(folder / BEST, self.network.state_dict())
            _save(folder / LAST, self.checkpoint())
            with atomic_file(folder / HISTORY) as partial:
                partial.write_text(json.dumps(self.history, indent=1) + "\n", encoding="utf-8")
            metrics = f"loss {row['loss']:.3f}, validation accuracy {row['validation_accuracy']:.3f}"
            speed = f"{row['documents_per_second']:,.0f} documents/s"
            say(f"epoch {len(self.history)} of {epochs}: {metrics}, {speed}")

    def train_epoch(self, batches: "DataLoader[Batch]", progress: Progress) -> Row:
        epoch, steps = len(self.history) + 1, len(self.batches)
        torch.manual_seed(self.options.seed * _EPOCHS_PER_SEED + epoch - 1)
        began = time.perf_counter()
        loss = _Mean(self.device)
        self.network.train()
        for step, batch in enumerate(batches):
            progress(f"epoch {epoch} of {self.options.epochs}", step, steps)
            outcome = self.outcome(batch)
            self.optimizer.zero_grad(set_to_none=True)
            (outcome.losses.sum() / outcome.answerable.sum().clamp(min=1)).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.network.parameters(), _GRADIENT)
            self.optimizer.step()
            self.schedule.step()
            loss.add(outcome.losses.detach(), outcome.answerable)
        row: Row = {"epoch": epoch, "loss": loss.value()}  # waits for the last steps
        seconds = time.perf_counter() - began
        return row | self.validate() | {"documents_per_second": len(self.data.training) / seconds}

    @torch.inference_mode()
    def validate(self) -> Row:
        self.network.eval()
        loss, accuracy = _Mean(self.device), _Mean(self.device)
        for batch in self.validation:
            outcome = self.outcome(batch)
            loss.add(outcome.losses, outcome.answerable)
            accuracy.add(outcome.right, torch.ones_like(outcome.right))
        return {"validation_loss": loss.value(), "validation_accuracy": accuracy.value()}

    def outcome(self, batch: Batch) -> "_Outcome":
        moved = batch.to(self.device)
        scores = self.network(moved.documents, moved.questions)
        of_answer = scores.gather(1, moved.answers[:, None])[:, 0]
        right = (scores.argmax(1) == moved.answers) & of_answer.isfinite()
        answerable = ~of_answer.isneginf()
        scores = scores.masked_fill(~answerable[:, None], 0.0)
        losses = nn.functional.cross_entropy(scores, moved.answers, reduction="none")
        return _Outcome(losses * answerable, answerable, right)

    def checkpoint(self) -> dict[str, Any]:
        """All that a run continues with, of types that `torch.load` takes with `weights_only`."""
        return {
            "history": self.history,
            "options": self.options.described(),
            "data": self.data.fingerprints(),
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
        }

    def load(self, file: Path) -> None:
        """Continue from a checkpoint; one of other options or data is refused."""
        checkpoint = _load(file)
        try:
            self._check_same(checkpoint["options"], checkpoint["data"])
            self.network.load_state_dict(checkpoint["network"])
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            self.schedule.load_state_dict(checkpoint["schedule"])
            self.history = checkpoint["history"]
        except AttarError:
            raise
        except (RuntimeError, ValueError, KeyError, TypeError) as fault:
            raise FormatError(
                f"{file} is not the last checkpoint of this run, or is damaged", _NEW_RUN
            ) from fault

    def _check_same(self, options: dict[str, Any], data: dict[str, str]) -> None:
        changed = self.options.changes(options)
        if changed:
            raise OptionError.expected(
                f"{self.options.folder}: options to resume with",
                ", ".join(f"{name} {then!r}" for name, (then, _) in changed.items()),
                ", ".join(repr(now) for _, now in changed.values()),
                f"give the same, or {_NEW_RUN}",
            )
        other = [name for name, value in self.data.fingerprints().items() if data.get(name) != value]
        if other:
            message = f"the {' and '.join(other)} of {self.options.data} changed since the run began"
            raise FormatError(message, f"restore them, or {_NEW_RUN}")


@dataclass(frozen=True)
class _Outcome:
    """Per question [Q]: its loss, 0 if its answer is no candidate; whether it is one; whether it is the best."""

    losses: Tensor
    answerable: Tensor
    right: Tensor


class _Mean:
    """A running mean on the device, which no step waits for."""

    def __init__(self, device: str) -> None:
        self._sums = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, values: Tensor, counted: Tensor) -> None:
        """Add values, of which as many count as `counted` is true."""
        self._sums += torch.stack([values.sum().double(), counted.sum().double()])

    def value(self) -> float:
        total, count = self._sums.tolist()
        return float(total / max(count, 1))


def _save(file: Path, content: Any) -> None:
    with writing_to(file.parent), atomic_file(file) as partial:
        torch.save(content, partial)


def _load(file: Path) -> Any:
    """Read a checkpoint, without running code from it; a damaged one raises an error with its path."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as fault:  # whatever zip, pickle and torch raise for a damaged file
        reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
        raise FormatError(f"{file} is not a whole checkpoint ({reason})", _NEW_RUN) from fault


@dataclass(frozen=True)
class Score:
    """The share of correct answers, its 95 % interval, and the number of questions and documents."""

    accuracy: float
    low: float
    high: float
    questions: int
    documents: int


# By source, "all" first, then by name: the network's score and the baselines'.
Evaluation = dict[str, dict[str, Score]]


@torch.inference_mode()
def evaluate(
    network: Network, split: EncodedSplit, *, batch_size: int = 128, progress: Progress = ignore_progress
) -> Evaluation:
    """The scores on all fixed questions of a split, and per source if there are several; on a GPU if there is one."""
    if len(split.answers) == 0:
        raise FormatError("the split has no questions to ask", "evaluate on validation or test")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device).eval()
    parts = []  # per question: its document, and who is right
    batches = ClozeBatches(split, size=batch_size)
    for done, batch in enumerate(batches):
        progress("evaluating", done, len(batches))
        moved = batch.to(device)
        scores = network(moved.documents, moved.questions).float().cpu()
        best = torch.where(scores.amax(1).isfinite(), scores.argmax(1), NO_GUESS).numpy()
        guesses = np.stack([best, *most_frequent_candidates(batch)], 1)
        document = batch.indices.numpy()[batch.questions.documents.numpy()]
        parts.append(np.column_stack([document, guesses == batch.answers.numpy()[:, None]]))
    table = np.concatenate(parts)
    source = split.source_of[table[:, 0]]
    tables = {WHOLE: table}
    if len(split.sources) > 1:
        tables |= {
            str(name): table[source == at] for at, name in enumerate(split.sources) if (source == at).any()
        }
    return {
        part: {name: score(rows, column) for column, name in enumerate((NETWORK, *BASELINES), 1)}
        for part, rows in tables.items()
    }


def most_frequent_candidates(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most frequent candidate per question [Q], and the most frequent that the question does not mention [Q].

    Of equally frequent ones the first in the document; `NO_GUESS` if there is none.
    """
    counts, names = batch.counts.numpy(), batch.documents.names.numpy()
    width = names.shape[1]
    first = np.full(counts.shape, width)
    row, column = np.nonzero(names >= 0)
    np.minimum.at(first, (row, names[row, column]), column)
    rank = np.where(counts > 0, counts - first / (width + 1), -np.inf)[batch.questions.documents.numpy()]
    unasked = np.where(batch.questions.asked.numpy(), -np.inf, rank)
    return _best(rank), _best(unasked)


def _best(ranks: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.where(ranks.max(1) > 0, ranks.argmax(1), NO_GUESS)


def score(table: NDArray[np.int64], column: int) -> Score:
    """The accuracy of one column, with an interval by resampling documents, whose questions are correlated.

    >>> score(np.array([[0, 1], [0, 1], [1, 0], [1, 0]]), 1)
    Score(accuracy=0.5, low=0.0, high=1.0, questions=4, documents=2)
    """
    documents, place = np.unique(table[:, 0], return_inverse=True)
    right = np.bincount(place, table[:, column])
    asked = np.bincount(place)
    drawn = np.random.default_rng(0).integers(len(documents), size=(_RESAMPLES, len(documents)))
    shares = right[drawn].sum(1) / asked[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return Score(float(right.sum() / asked.sum()), float(low), float(high), int(asked.sum()), len(documents))
