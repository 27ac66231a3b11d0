"""The options of a run that trains a reader on real questions."""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from attar.errors import OptionError
from attar.options import check_ranges, option

# Where a run is made does not change its result.
_NOT_KEPT = ("out", "num_workers")
_PATHS = ("base", "init", "teacher", "look_base", "exclude")


@dataclass(frozen=True)
class QuestionOptions:
    """One run of `attar train-questions`: a new reader from a published encoder, or `init` fine-tuned."""

    data: tuple[str, ...]
    out: str = option(MISSING, "Folder to write.", "-o")
    base: str = option("", "Folder of a published encoder to start from.")
    init: str = option("", "Train this reader on; without --teacher on questions with known answers alone.")
    teacher: str = option(
        "", "Folder of MPNet, to teach the reader; a new reader is taught by --base otherwise."
    )
    look_base: str = option(
        "", "Folder of a published encoder that the second look starts from; the reader's own otherwise."
    )
    calibrate_only: bool = option(
        False, "Train nothing: write the reader of --init with probabilities calibrated by these questions."
    )
    exclude: str = option("", "Test set; passages that share 13 consecutive words with it are left out.")
    size: int = option(64, "Size k of phrase vectors.", min=1)
    word_size: int = option(32, "Size of the vectors that words are compared by.", min=1)
    values: int = option(0, "Size d of values; 0 disables fixed-size memories.", min=0)
    density: float = option(0.4, "Phrases that the reader keeps per word piece.", min=0.01, max=10)
    quick_layers: int = option(2, "Layers of the quick question encoder; 0 for none.", min=0)
    epochs: int = option(0, "Epochs of the last network; 0: 7, or 3 with --init.", min=0)
    look_epochs: int = option(6, "Epochs of the second look.", min=1)
    lr: float = option(0.0, "Peak learning rate of AdamW; 0: 2e-4, or 5e-5 with --init.", min=0)
    batch_tokens: int = option(
        0, "Word pieces of passages per step, with padding; 0: 12,000, or 3,000 with --init.", min=0
    )
    distillation: float = option(1.0, "Weight of the teacher's scores in the loss.", min=0)
    seed: int = option(1, "Random seed.", min=0, max=2**31 - 1)
    num_workers: int = option(-1, "Processes that prepare batches; -1 chooses a number.", min=-1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", tuple(map(str, self.data)))
        check_ranges(self)
        if not self.data:
            raise OptionError("there are no files of questions", "give at least one")
        if bool(self.base) == bool(self.init):
            came = "both" if self.base else "neither"
            raise OptionError.expected("--base and --init", "one of them", came)
        if self.calibrate_only and not self.init:
            raise OptionError("--calibrate-only needs a reader to calibrate", "name it by --init")
        # A person's own questions are few: more steps.
        defaults = (3, 3_000, 5e-5) if self.init else (7, 12_000, 2e-4)
        for name, default in zip(("epochs", "batch_tokens", "lr"), defaults, strict=True):
            object.__setattr__(self, name, getattr(self, name) or default)

    @property
    def folder(self) -> Path:
        return Path(self.out)

    def described(self) -> dict[str, Any]:
        """The options that determine the result, with names instead of paths."""
        options = {name: value for name, value in vars(self).items() if name not in _NOT_KEPT}
        names = {name: Path(options[name]).name for name in _PATHS}
        return options | names | {"data": [Path(path).name for path in self.data]}
