"""What a run goes on from: its last checkpoint, if that is whole, and of the same options and texts."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attar.errors import FormatError, OptionError
from attar.training.options import TrainingOptions

ANEW = "train anew without --resume"
# What a checkpoint to go on from holds; `best.ckpt` holds less.
PARTS = ("state_dict", "optimizer_states", "callbacks", "loops", "history")


@dataclass(frozen=True)
class Earlier:
    """What a run had come to: its epochs, and whether it stopped because validation no longer improved."""

    history: list[dict[str, float]]
    stopped: bool


def take_up(
    kept: Path, options: TrainingOptions, texts: Mapping[str, str], weights: Mapping[str, Tensor]
) -> Earlier:
    """Check that a run can go on from a checkpoint with these options, these texts and this network."""
    checkpoint = load_checkpoint(kept)
    lacking = [part for part in PARTS if part not in checkpoint]
    if lacking:
        raise FormatError(str(kept), "a run's last checkpoint", f"one without {lacking[0]}", ANEW)
    if "options" in checkpoint:
        check_resumed(options, json.loads(checkpoint["options"]))
    check_texts(options, texts, checkpoint.get("texts", {}))
    sizes = {name: value.shape for name, value in checkpoint["state_dict"].items()}
    if sizes != {name: value.shape for name, value in weights.items()}:
        raise FormatError(str(kept), "numbers of this network", "those of another", ANEW)
    waited = [state for state in checkpoint["callbacks"].values() if "wait_count" in state]
    stopped = any(state["wait_count"] >= state["patience"] for state in waited)
    return Earlier(list(checkpoint["history"]), stopped)


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint; a damaged one is named."""
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as fault:  # whatever a damaged file makes zip, pickle and torch say
        told = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
        raise FormatError(str(file), "a whole checkpoint", f"a damaged one ({told})", ANEW) from fault
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise FormatError(str(file), "a checkpoint", "something else", ANEW)
    return checkpoint


def check_resumed(options: TrainingOptions, earlier: dict[str, Any]) -> None:
    """Refuse to go on with other options than a run was begun with."""
    changed = options.changes(earlier)
    if changed:
        raise OptionError(
            f"{options.folder}: options to resume with",
            ", ".join(f"{name} {then!r}" for name, (then, _) in changed.items()),
            ", ".join(repr(now) for _, now in changed.values()),
            f"give the same, or {ANEW}",
        )


def check_texts(options: TrainingOptions, now: Mapping[str, str], then: Mapping[str, str]) -> None:
    """Refuse to go on with another vocabulary or other documents; what an older run did not note is let be."""
    changed = [name for name in now if name in then and now[name] != then[name]]
    if changed:
        raise FormatError(
            f"{options.folder}: sets to resume with",
            f"the {' and '.join(changed)} that the run was begun with",
            "other" if changed != ["vocabulary"] else "another",
            f"put {', '.join(options.data)} back as it was, or {ANEW}",
        )


def move_here(checkpoint: dict[str, Any], run: Path) -> None:
    """Let the callbacks find their checkpoints in this folder: it may have moved since they noted where it was."""

    def moved(path: str) -> str:
        return os.path.join(here, os.path.basename(path)) if path else path

    here = os.path.realpath(run)
    for state in checkpoint["callbacks"].values():
        if "dirpath" in state:
            state["dirpath"] = here
            for name in ("best_model_path", "kth_best_model_path", "last_model_path"):
                state[name] = moved(state[name])
            state["best_k_models"] = {moved(path): kept for path, kept in state["best_k_models"].items()}
