"""What each part of a reader for real questions is worth: short runs with some part left out, three seeds each.

    python -m benchmarks.question_ablation DATA… --teacher reader/run --base all-MiniLM-L6-v2 --out ablation --epochs 2

`--teacher` is the run of a finished teacher on the same data: its labels are used by all. Every run is resumable, and
runs that are done are not repeated; the table is over those that are. Accuracy is on the held-out articles.
"""

import json
import shutil
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer

from attar.progress import ignore_progress
from attar.training.options import QuestionOptions
from attar.training.run import RUN, QuestionRun, silent
from attar.training.train import train_questions
from benchmarks.command import run_command

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "k = 32": {"size": 32},
    "k = 128": {"size": 128},
    "half as many phrases": {"density": 0.2},
    "twice as many phrases": {"density": 0.8},
    "no distillation": {"distillation": 0.0},
    "fixed size too, d = 64": {"values": 64},
}
_LABELS = ("first-teacher.safetensors", "first-labels.npz", "teacher.safetensors", "labels.npz")


def run_variant(given: dict[str, Any], folder: Path, teacher: Path | None) -> dict[str, Any]:
    """Train one variant, or read what it gave."""
    result = folder / "result.json"
    if result.is_file():
        return dict(json.loads(result.read_text()))
    options = QuestionOptions(**given, out=str(folder))
    run = QuestionRun(options, ignore_progress, silent)
    if not (folder / RUN / "run.json").is_file():
        run.folder.mkdir(parents=True, exist_ok=True)
        run.begin(resume=False, replace=True)
        files = [] if teacher is None else [teacher / name for name in _LABELS]
        for file in files:
            if file.is_file():
                shutil.copy(file, run.folder / file.name)
    found = train_questions(options, resume=True)
    scores = found.held_out.get("large", {})
    result.write_text(json.dumps(scores) + "\n")
    return scores


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """The means over seeds, and their standard deviations.

    >>> print(table({"all": [{"em": 0.5, "f1": 0.6}, {"em": 0.52, "f1": 0.6}]}))
    | variant | seeds | EM | F1 |
    |---|---|---|---|
    | all | 2 | .510 ± .014 | .600 ± .000 |
    """
    lines = ["| variant | seeds | EM | F1 |", "|---|---|---|---|"]
    for name, rows in results.items():
        cells = []
        for key in ("em", "f1"):
            values = [row[key] for row in rows]
            spread = stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{mean(values):.3f} ± {spread:.3f}".replace("0.", "."))
        lines.append(f"| {name} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    data: Annotated[list[Path], typer.Argument(help="Files of questions, as for train-questions.")],
    base: Annotated[str, typer.Option(help="Published encoder to start from.")],
    out: Annotated[Path, typer.Option(help="Folder for the runs.")],
    teacher: Annotated[Path | None, typer.Option(help="Folder of a run whose teacher is done.")] = None,
    exclude: Annotated[str, typer.Option(help="Test set to keep out.")] = "",
    epochs: Annotated[int, typer.Option(min=1)] = 2,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    only: Annotated[str, typer.Option(help="Only variants with this in their name.")] = "",
) -> None:
    """Train variants with several seeds, and print a table."""
    results: dict[str, list[dict[str, float]]] = {}
    shared = {
        "data": tuple(map(str, data)),
        "base": base,
        "exclude": exclude,
        "epochs": epochs,
        "quick_layers": 0,
    }
    chosen = {name: changed for name, changed in VARIANTS.items() if only in name}
    for seed in range(1, seeds + 1):
        for name, changed in chosen.items():
            folder = out / f"{name.replace(' ', '-').replace('=', '').replace(',', '')}-{seed}"
            scores = run_variant(shared | changed | {"seed": seed}, folder, teacher)
            if scores:
                results.setdefault(name, []).append(scores)
            print(f"{name}, seed {seed}: {scores}", flush=True)
    print(table(results))


if __name__ == "__main__":
    run_command(main)
