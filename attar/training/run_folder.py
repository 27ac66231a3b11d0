"""The folder of a run: it is writable, one run uses it at a time, and its last checkpoint can be resumed."""

import errno
import fcntl
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attar.errors import AttarError, FormatError, quoted, writing_to
from attar.files import lock_file

RUN, HISTORY = "run", "history.json"
BEST, LAST = "best.ckpt", "last.ckpt"
OTHER_OUT = "choose another --out"
_NEW_RUN = "start a new run without --resume"
# Seconds to wait for another run to end: the workers of a killed run hold its lock, and check only every 5 seconds
# whether it is alive.
_LOCK_TIMEOUT = 6.0


def check_writable(folder: Path) -> None:
    """Refuse a path that is no folder and cannot become one, or that is not writable; nothing is created."""
    with writing_to(folder, OTHER_OUT):
        existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"the file {existing}")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{existing}, which is not writable")


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
