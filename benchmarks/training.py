"""`python -m benchmarks.training`: where a training step's time goes, for several mechanisms."""

import json as json_format
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from attar.bench import print_plain, print_table, profile_step, progress_bar, this_machine
from attar.cloze import BuildOptions, build_set
from attar.progress import Progress
from attar.training import TrainingOptions
from benchmarks.command import Json, Quick, run_command
from benchmarks.stories import tell_stories

MECHANISMS = ("gated", "named", "softmax")
STORIES = 2_000


def run(
    data: Sequence[Path] = (),
    mechanisms: Sequence[str] = MECHANISMS,
    *,
    batch: int = 32,
    quick: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, dict[str, Any]]:
    """The profile of each mechanism, on cloze sets or on one that is built from stories."""
    profiles = {}
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        folder = Path(place)
        sets = data or [build_stories(folder, 60 if quick else STORIES)]
        for done, mechanism in enumerate(mechanisms):
            progress(mechanism, done, len(mechanisms))
            paths = tuple(map(str, sets))
            options = TrainingOptions(paths, str(folder / "out"), mechanism=mechanism, batch_size=batch)
            if quick:
                options = replace(options, hidden_size=4, embedding_size=4, batch_size=8)
            profiles[mechanism] = profile_step(options)
    return profiles


def build_stories(folder: Path, count: int) -> Path:
    """A cloze set of made-up stories."""
    texts = folder / "stories.txt"
    texts.write_text("\n\n".join(story.text for story in tell_stories(1, count)))
    build_set([texts], folder / "set", BuildOptions(window=100, vocabulary_size=200, only="training"))
    return folder / "set"


def main(
    data: Annotated[list[Path] | None, typer.Option(help="Cloze sets; by default made-up stories.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Documents per step.")] = 32,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Profile a training step: waiting for batches, attention, the rest."""
    machine = this_machine()
    with progress_bar() as progress:
        profiles = run(data or (), batch=batch, quick=quick, progress=progress)
    if json:
        print(json_format.dumps(profiles))
        return
    print_plain(Console(), f"{machine}\n")
    lines = list(next(iter(profiles.values())))
    rows = [[line, *(str(profile[line]) for profile in profiles.values())] for line in lines]
    print_table(Console(), ["per mechanism", *profiles], rows)


if __name__ == "__main__":
    run_command(main)
