"""One run of a comparison, in a process of its own: `python -m attar.training.run OPTIONS.json`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from attar.training.options import TrainingOptions

OPTIONS, RESULT = "options.json", "result.json"


def run(options: TrainingOptions) -> dict[str, Any]:
    """Train, evaluate on validation and test, and write `result.json` last: a folder that has one is done."""
    import torch

    from attar.reader.folder import load_reader
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


if __name__ == "__main__":
    run(TrainingOptions.from_json(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
