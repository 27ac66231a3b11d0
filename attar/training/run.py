"""One run of a comparison, in a process of its own: `python -m attar.training.run OPTIONS.json`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from attar.errors import AttarError, FormatError
from attar.training.lifeline import WATCHED, end_when_cut
from attar.training.options import TrainingOptions

OPTIONS, RESULT = "options.json", "result.json"


def run(options: TrainingOptions) -> dict[str, Any]:
    """Train, evaluate on validation and test, and write `result.json` last: a folder that has one is done."""
    import torch

    from attar.reader import load_reader
    from attar.training.data import leave_out, open_splits
    from attar.training.evaluate import evaluate
    from attar.training.fit import train

    folder = train(options, resume=True, quiet=True)
    saved = load_reader(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result: dict[str, Any] = {"options": options.to_json(), "history": saved.about["history"]}
    for split in ("validation", "test"):
        skip = leave_out if options.skip_malformed else None
        data = open_splits(options.data, split, saved.vocabulary, skip=skip)
        result[split] = evaluate(saved.network, saved.vocabulary, data, device=device).to_json()
    partial = folder / f".{RESULT}.partial"
    partial.write_text(json.dumps(result) + "\n", encoding="utf-8")
    os.replace(partial, folder / RESULT)
    return result


def read_result(folder: Path) -> dict[str, Any] | None:
    """A run's result, None if it has none yet; a damaged one is named."""
    file = folder / RESULT
    try:
        result = json.loads(file.read_bytes())
        lacking = [name for name in ("options", "history", "test") if name not in result]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError) as fault:
        raise _damaged(file, f"something else ({fault})") from fault
    if lacking or not isinstance(result, dict):
        raise _damaged(file, "something else")
    return result


def _damaged(file: Path, came: str) -> FormatError:
    return FormatError(str(file), "a run's result", came, "delete it: the same command then writes it again")


def main(*arguments: str) -> None:
    """Make one run; a mistake is one line, which ends the log that the comparison quotes."""
    if WATCHED in arguments:
        end_when_cut()
    try:
        run(TrainingOptions.from_json(json.loads(Path(arguments[-1]).read_text(encoding="utf-8"))))
    except AttarError as mistake:
        sys.exit(f"attar: {mistake}")


if __name__ == "__main__":
    main(*sys.argv[1:])
