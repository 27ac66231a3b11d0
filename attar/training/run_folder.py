"""The folder of a run: it is writable, one run uses it at a time, and its last checkpoint can be resumed."""

import errno
import fcntl
import json
import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from attar.errors import AttarError, FormatError, OptionError, quoted, writing_to
from attar.files import lock_file, refuse_existing
from attar.reader.files import READER_FILES
from attar.training.options import TrainingOptions

RUN, HISTORY = "run", "history.json"
BEST, LAST = "best.ckpt", "last.ckpt"
OTHER_OUT = "choose another --out"
_NEW_RUN = "start a new run without --resume"
# Seconds to wait for another run to end: the workers of a killed run hold its lock, and check only every 5 seconds
# whether it is alive.
_LOCK_TIMEOUT = 6.0
# The parts of a checkpoint that can be resumed; `best.ckpt` has fewer.
_PARTS = ("state_dict", "optimizer_states", "callbacks", "loops", "history")


class _Checkpoint(msgspec.Struct):
    """The parts of a checkpoint that are read here; Lightning reads the others."""

    optimizer_states: list[Any]
    callbacks: dict[str, dict[str, Any]]
    loops: dict[str, Any]
    history: list[dict[str, float]]
    options: str = ""
    texts: dict[str, str] = {}


def check_writable(folder: Path) -> None:
    """Refuse a path that is no folder and cannot become one, or that is not writable; nothing is created."""
    with writing_to(folder, OTHER_OUT):
        existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"the file {existing}")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{existing}, which is not writable")


def refuse_overwriting(folder: Path, *, resume: bool, replace: bool) -> None:
    """Refuse a folder with a reader or an unfinished run, unless the caller resumes or replaces it."""
    last = folder / RUN / LAST
    if not replace and not (resume and last.is_file()):
        files = [*(folder / name for name in READER_FILES), last]
        refuse_existing(files, f"add --resume or --replace, or {OTHER_OUT}")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder: a second run is refused, in this process too. The lock of a killed run is released."""
    with writing_to(folder, OTHER_OUT):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with writing_to(folder, OTHER_OUT):
            acquired = lock_file(file, fcntl.LOCK_EX, time.monotonic() + _LOCK_TIMEOUT)
        if not acquired:
            remedy = f"wait for it, stop it, or {OTHER_OUT}"
            raise AttarError.expected(str(folder), "a folder that no other run uses", "one in use", remedy)
        yield
    finally:
        os.close(file)


def read_history(folder: Path) -> list[dict[str, float]]:
    """The metrics of each epoch of a finished run, from the reader's folder."""
    history: list[dict[str, float]] = json.loads((folder / RUN / HISTORY).read_text(encoding="utf-8"))
    return history


def check_resumable(
    file: Path, options: TrainingOptions, data: Mapping[str, str], weights: Mapping[str, Tensor]
) -> list[dict[str, float]] | None:
    """Check that a checkpoint fits these options, data fingerprints and weights.

    Returns the history of a run that was stopped early, which must not continue, and otherwise None.
    """
    checkpoint = load_checkpoint(file)
    lacking = [part for part in _PARTS if part not in checkpoint]
    if lacking:
        raise FormatError.expected(
            str(file), "a run's last checkpoint", f"one without {lacking[0]}", _NEW_RUN
        )
    try:
        recorded = msgspec.convert(checkpoint, _Checkpoint)
        earlier = msgspec.json.decode(recorded.options, type=dict[str, Any]) if recorded.options else {}
        # A run that did not record its options or data is accepted.
        changed = options.changes(earlier) if earlier else {}
    except (msgspec.DecodeError, RecursionError, TypeError) as fault:
        came = f"another ({str(fault)[:200]})"
        raise FormatError.expected(f"{file}: the options in it", "those of a run", came, _NEW_RUN) from fault
    if changed:
        raise OptionError.expected(
            f"{options.folder}: options to resume with",
            ", ".join(f"{name} {then!r}" for name, (then, _) in changed.items()),
            ", ".join(repr(now) for _, now in changed.values()),
            f"give the same, or {_NEW_RUN}",
        )
    others = [name for name in data if data[name] != recorded.texts.get(name, data[name])]
    if others:
        raise FormatError.expected(
            f"{options.folder}: sets to resume with",
            f"the {' and '.join(others)} of the earlier run",
            "another" if others == ["vocabulary"] else "other",
            f"restore {', '.join(options.data)}, or {_NEW_RUN}",
        )
    shapes = {name: value.shape for name, value in checkpoint["state_dict"].items()}
    if shapes != {name: value.shape for name, value in weights.items()}:
        raise FormatError.expected(str(file), "weights of this network", "those of another", _NEW_RUN)
    waited = [state for state in checkpoint["callbacks"].values() if "wait_count" in state]
    stopped = any(state["wait_count"] >= state["patience"] for state in waited)
    return list(checkpoint["history"]) if stopped else None


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint; a damaged one raises an error with its path."""
    try:
        with zipfile.ZipFile(file) as archive:
            claimed = sum(part.file_size for part in archive.infolist())
        # torch writes its parts uncompressed, and allocates what a compressed one claims to be.
        if claimed > file.stat().st_size:
            came = f"one that claims {claimed:,} bytes"
            raise FormatError.expected(str(file), "a whole checkpoint", came, _NEW_RUN)
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except FormatError:
        raise
    except Exception as fault:  # whatever zip, pickle and torch raise for a damaged file
        reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
        raise FormatError.expected(
            str(file), "a whole checkpoint", f"a damaged one ({reason})", _NEW_RUN
        ) from fault
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise FormatError.expected(str(file), "a checkpoint", "something else", _NEW_RUN)
    for name, value in dict(checkpoint["state_dict"]).items():
        if not isinstance(value, Tensor):
            raise FormatError.expected(
                str(file), f"a tensor for {quoted(str(name))}", type(value).__name__, _NEW_RUN
            )
    return checkpoint


def relocate_checkpoint(checkpoint: dict[str, Any], run: Path) -> None:
    """Point the callbacks' states to this folder: it may have moved since the checkpoint was written."""

    def moved(path: str) -> str:
        return os.path.join(here, os.path.basename(path)) if path else path

    here = os.path.realpath(run)
    for state in checkpoint["callbacks"].values():
        if "dirpath" in state:
            state["dirpath"] = here
            for name in ("best_model_path", "kth_best_model_path", "last_model_path"):
                state[name] = moved(state[name])
            state["best_k_models"] = {moved(path): kept for path, kept in state["best_k_models"].items()}
