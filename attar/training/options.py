"""The options of a training run: checked when they are made, written to the run's folder."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attar.errors import OptionError
from attar.options import ModelOptions, check_ranges, option

if TYPE_CHECKING:
    from attar.nn.network_options import NetworkOptions
    from attar.text.vocabulary import Vocabulary

PRECISIONS = ("32", "bf16-mixed", "16-mixed")
HIGHEST_SEED = 2**32 - 1  # NumPy's limit
# Where and with how many processes a run is made does not change its result.
_NOT_KEPT = ("out", "num_workers", "devices")
_NEW_RUN = "omit what the reader fixes, or train a new reader without --init-from"


@dataclass(frozen=True)
class TrainingOptions(ModelOptions):
    """One training run. The batch size counts over all processes, so that two make the steps of one."""

    data: tuple[str, ...] = option(MISSING, "Folder of a cloze set. Repeat to train on several sets.", "-d")
    out: str = option(MISSING, "Folder to write.", "-o")
    init_from: str = option(
        "",
        'Fine-tune this reader: its folder, or "default" for the one in the package.',
    )
    freeze: bool = option(
        False,
        "Train only the parameters that the reader of --init-from lacks (--cooccurrence).",
    )
    shared_init: bool = option(False, "Initialize the question encoder with the document encoder's weights.")
    epochs: int = option(12, "Number of epochs.", min=1)
    batch_size: int = option(64, "Documents per step, over all processes.", min=1)
    questions: int = option(10, "Questions drawn per document and epoch.", min=1)
    lr: float = option(4e-3, "Peak learning rate of Adam.")
    warmup: float = option(0.02, "Share of the steps in which the learning rate rises.", min=0, max=1)
    grad_clip: float = option(5.0, "Maximum gradient norm; 0 disables clipping.", min=0)
    patience: int = option(0, "Stop after this many epochs without improvement; 0 disables it.", min=0)
    seed: int = option(0, "Random seed.", min=0, max=HIGHEST_SEED)
    precision: str = option("32", "32, bf16-mixed or 16-mixed.")
    num_workers: int = option(-1, "Processes that prepare batches; -1 chooses a number.", min=-1)
    devices: int = option(1, "Number of GPUs, or of processes without a GPU; torchrun has its own.", min=1)
    skip_malformed: bool = option(False, "Skip malformed .question files, with a warning.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", tuple(self.data))
        if not self.data:
            raise OptionError.expected("data", "at least one cloze set's folder", "none")
        check_ranges(self)
        if self.lr <= 0:
            raise OptionError.expected("lr", "a number above 0", str(self.lr))
        if self.precision not in PRECISIONS:
            raise OptionError.expected("precision", " or ".join(PRECISIONS), repr(self.precision))
        if self.scale not in (None, "sqrt", "mean"):
            raise OptionError.expected("scale", "sqrt or mean or none", repr(self.scale))
        if self.freeze and not (self.init_from and self.cooccurrence):
            got = "neither" if not self.init_from else "init_from alone"
            raise OptionError.expected("freeze", "init_from and cooccurrence with it", got)
        if self.shared_init and self.init_from:
            raise OptionError.expected("shared_init", "a new network", "init_from", "omit one of them")
        from attar.text.vocabulary import Vocabulary

        # Invalid combinations are refused now, and not after the words of a set have been counted.
        network_options(self, Vocabulary(()))

    @property
    def folder(self) -> Path:
        """The reader's folder."""
        return Path(self.out)

    def to_json(self) -> dict[str, Any]:
        """The options that determine the result."""
        return self._kept()

    def described(self) -> dict[str, Any]:
        """As `to_json`, with names instead of paths: for files that are passed on."""
        return self._without_paths()

    def changes(self, earlier: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from the JSON of earlier options: (then, now) by name.

        A set may have moved if it kept its name; an option that the earlier version lacked had its default.
        """
        then = TrainingOptions.from_json({**earlier, "out": self.out})._without_paths()
        now = self._without_paths()
        return {name: (then[name], now[name]) for name in now if then[name] != now[name]}

    @classmethod
    def from_json(cls, options: Mapping[str, Any]) -> "TrainingOptions":
        """The options that `to_json` returned."""
        return cls(**options)

    def _kept(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _NOT_KEPT}

    def _without_paths(self) -> dict[str, Any]:
        sets = [Path(each).resolve().name for each in self.data]
        return self._kept() | {"data": sets, "init_from": Path(self.init_from).name if self.init_from else ""}


def network_options(options: TrainingOptions, vocabulary: "Vocabulary") -> "NetworkOptions":
    """The network that a run trains."""
    from attar.nn.network_options import NetworkOptions

    return NetworkOptions(len(vocabulary), vocabulary.entities, vocabulary.first_entity, **options.model())


def fixed_options(reader: "NetworkOptions") -> dict[str, Any]:
    """The values of all training options that a reader's network fixes."""
    return {name: value for name, value in reader.model().items() if name != "dropout"}


def check_fixed(options: Mapping[str, Any], fixed: Mapping[str, Any], reader: str) -> None:
    """Refuse options that differ from those a reader fixes; only co-occurrence can be added to it.

    >>> check_fixed({"hidden_size": 64, "dropout": 0.2}, {"hidden_size": 64}, "reader")
    >>> check_fixed({"hidden_size": 100}, {"hidden_size": 64}, "reader")
    Traceback (most recent call last):
    attar.errors.OptionError: options of the reader reader: expected hidden_size 64, got 100; omit what \
the reader fixes, or train a new reader without --init-from
    """
    changed = [name for name in fixed if name in options and options[name] != fixed[name]]
    changed = [name for name in changed if name != "cooccurrence" or not options[name]]
    if changed:
        expected = ", ".join(f"{name} {fixed[name]!r}" for name in changed)
        got = ", ".join(repr(options[name]) for name in changed)
        raise OptionError.expected(f"options of the reader {reader}", expected, got, _NEW_RUN)
