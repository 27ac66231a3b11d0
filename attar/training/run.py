"""The folder of a run on questions: what it was begun with, its finished stages, and the history of all."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_file, lock_file
from attar.progress import Progress
from attar.training.batches import Array, Batch
from attar.training.options import QuestionOptions
from attar.training.stage import Row, Stage, load_weights, save_weights
from attar.training.teacher import Loss

# The folder of a run, in its reader's folder, and its files.
RUN = "run"
BEGUN = "run.json"
HISTORY = "history.json"
# The config is the last file of a reader that is written.
_READER = "config.json"
_LOCK = "lock"
# Seconds to wait for another run to end: the workers of a killed run hold its lock, and check only every 5 seconds
# whether it is alive.
_LOCK_TIMEOUT = 6.0
# Processes that prepare batches for a GPU.
_WORKERS = 8
_OTHER_OUT = "choose another --out"
Say = Callable[[str], None]
# The options of a run, and a hash of each of its files.
Begun = dict[str, dict[str, Any]]
Module = TypeVar("Module", bound=nn.Module)


def silent(line: str) -> None:
    """Ignore the lines that a run says of its stages."""


class QuestionRun:
    """A run's options and folder. Each stage's result is a file in it; a stage whose file is there is skipped."""

    def __init__(self, options: QuestionOptions, progress: Progress, say: Say) -> None:
        self.options, self.progress, self.say = options, progress, say
        self.folder = options.folder / RUN
        on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self.workers = options.num_workers if options.num_workers >= 0 else _WORKERS if on_gpu else 0
        self.history: list[Row] = []

    def begin(self, *, resume: bool, replace: bool) -> None:
        """Refuse a folder in use unless it is resumed or replaced, and a run that was begun with anything else."""
        file, reader = self.folder / BEGUN, self.options.folder / _READER
        begun: Begun = {"options": self.options.described(), "files": self._fingerprints()}
        begun = json.loads(json.dumps(begun))
        used = file.is_file() or reader.exists()
        if used and not resume and not replace:
            what = "a reader" if reader.exists() else "an unfinished run"
            remedy = f"add --resume or --replace, or {_OTHER_OUT}"
            raise OptionError(f"{self.options.folder} has {what} already", remedy)
        if resume and file.is_file():
            self._check_same(json.loads(file.read_text(encoding="utf-8")), begun)
            history = self.folder / HISTORY
            self.history = json.loads(history.read_text(encoding="utf-8")) if history.is_file() else []
            return
        reader.unlink(missing_ok=True)
        for entry in self.folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _LOCK:
                entry.unlink()
        self._write(file, json.dumps(begun, indent=1) + "\n")

    def _fingerprints(self) -> dict[str, str]:
        """A hash of each file that the result depends on."""
        digests = {}
        for path in filter(None, (*self.options.data, self.options.exclude)):
            try:
                with open(path, "rb") as file:
                    digests[Path(path).name] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as fault:
                reason = fault.strerror or str(fault)
                raise FormatError(f"{path} cannot be read: {reason}", "check the path") from fault
        return digests

    def _check_same(self, then: Begun, now: Begun) -> None:
        """Refuse to continue a run with other options or other files."""
        folder, remedy = self.options.folder, "give the same, or start again with --replace"
        for name, value in now["options"].items():
            before = then["options"].get(name)
            if value != before:
                raise OptionError.expected(
                    f"{folder}: options to resume with", f"{name} {before!r}", repr(value), remedy
                )
        for name, digest in now["files"].items():
            if digest != then["files"].get(name):
                raise OptionError(f"{folder}: {name} is another file than in the earlier run", remedy)

    def module(self, make: Callable[[], Module]) -> Module:
        """A new network: the same, whichever stages were skipped before."""
        torch.manual_seed(self.options.seed)
        return make()

    def fit(
        self,
        name: str,
        module: nn.Module,
        loss: Callable[[Batch], Loss],
        batches: Callable[[], Dataset[Batch]],
        *,
        lr: float,
        heads: float = 5.0,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        """Train a network, unless its file is there; afterwards it has the weights of the file, and is on the GPU."""
        file, last = self.folder / f"{name}.safetensors", self.folder / f"{name}.ckpt"
        if not file.is_file():
            stage = Stage(
                name, module.to(self.device), loss, batches(), lr=lr, heads=heads, seed=self.options.seed,
                workers=self.workers, device=self.device, evaluate=evaluate, progress=self.progress,
            )  # fmt: skip
            self.say(f"{name}: {stage.steps:,} steps" + (", continued" if last.is_file() else ""))
            rows = stage.fit(last)
            for row in rows:
                self.say(" ".join(f"{key} {value}" for key, value in row.items()))
            self.history = [row for row in self.history if row["stage"] != name] + rows
            self._write(self.folder / HISTORY, json.dumps(self.history, indent=1) + "\n")
            save_weights(file, module)
        last.unlink(missing_ok=True)
        # Read back also when it was just trained: files have fewer digits, and a resumed run starts from them.
        load_weights(file, module)
        module.to(self.device)

    def arrays(self, name: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """Arrays that a stage makes, from its file if that is there."""
        file = self.folder / f"{name}.npz"
        if not file.is_file():
            self.say(name)
            made = make()
            with atomic_file(file) as partial, partial.open("wb") as opened:
                np.savez(opened, **made)  # type: ignore[arg-type]  # names of arrays are no options
        try:
            with np.load(file, allow_pickle=False) as loaded:
                return dict(loaded)
        except (OSError, ValueError, EOFError) as fault:
            raise FormatError(f"{file} is damaged: {fault}", "remove it and resume again") from fault

    def _write(self, file: Path, text: str) -> None:
        with atomic_file(file) as partial:
            partial.write_text(text, encoding="utf-8")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder: a second run is refused, in this process too. The lock of a killed run is released."""
    with writing_to(folder, _OTHER_OUT):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with writing_to(folder, _OTHER_OUT):
            acquired = lock_file(file, fcntl.LOCK_EX, time.monotonic() + _LOCK_TIMEOUT)
        if not acquired:
            remedy = f"wait for it, stop it, or {_OTHER_OUT}"
            raise AttarError(f"{folder} is in use by another run", remedy)
        yield
    finally:
        os.close(file)
