"""A run in two processes takes the steps of a run in one: the same gradients, the same reader."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from attar.errors import OptionError
from attar.reader.reader import Reader
from attar.training import run, stage
from attar.training.options import QuestionOptions
from attar.training.stage import Processes
from attar.training.train import train_questions

from .conftest import MakeOptions
from .test_train import STAGES

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# Writes the gradients of the first step of each stage.
PROGRAM = """
import sys
import torch
from attar.training import run, stage
from attar.training.options import QuestionOptions
from attar.training.train import train_questions

torch.use_deterministic_algorithms(True)
gradients = {}

class Keeping(stage.Stage):
    def update(self):
        if self.step == 0:
            named = [(name, weight) for name, weight in self.module.named_parameters()]
            self.processes.average_gradients([weight for _, weight in named])
            gradients[self.name] = {name: weight.grad.clone() for name, weight in named if weight.grad is not None}
        super().update()

run.Stage = Keeping
result = train_questions(QuestionOptions(**OPTIONS))
if result.history:
    torch.save(gradients, OPTIONS["out"] + ".gradients")
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def run_in_processes(options: QuestionOptions, *launch: str) -> dict[str, dict[str, torch.Tensor]]:
    script = options.folder.with_suffix(".py")
    script.write_text(PROGRAM.replace("OPTIONS", repr(vars(options))))
    ended = subprocess.run(
        [sys.executable, *launch, str(script)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return torch.load(f"{options.out}.gradients")


def run_here(options: QuestionOptions, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, torch.Tensor]]:
    """The same in this process, which has imported all of it; with one thread, as the others have."""
    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(run, "Stage", run.Stage)
        names: dict[str, Any] = {"OPTIONS": vars(options)}
        try:
            torch.set_num_threads(1)
            exec(PROGRAM, names)
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(False)
    return names["gradients"]


def weights(folder: Path) -> dict[str, Any]:
    return {file.name: safetensors.torch.load_file(file) for file in (folder / "run").glob("*.safetensors")}


@pytest.mark.nightly
def test_two_processes_take_the_steps_of_one(options: MakeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, shared = options("alone", accumulate=2), options("shared", accumulate=2)
    one, two = run_here(alone, monkeypatch), run_in_processes(shared, *TORCHRUN)
    assert set(one) == set(two) == set(STAGES)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
    # Adam divides by the size of gradients, which makes more of rounding.
    torch.testing.assert_close(weights(alone.folder), weights(shared.folder), rtol=0, atol=5e-3)
    first, second = (Reader.load(each.folder).about["held_out"] for each in (alone, shared))
    assert first.keys() == second.keys()
    assert first
    for name in first:
        # One of the few held-out questions may be answered otherwise after rounding.
        assert second[name] == pytest.approx(first[name], abs=0.1), name
    assert not list((shared.folder / "run").glob("*.ckpt"))


def test_the_parts_of_a_step_are_shared_without_gaps(options: MakeOptions) -> None:
    batches = list(range(13))
    for count in (1, 2, 3, 6):
        seen = []
        for rank in range(count):
            part = stage.Stage(
                "s", torch.nn.Linear(1, 1), lambda batch: batch, batches, lr=0.1, accumulate=6,
                processes=Processes(rank, count, rank),
            )  # fmt: skip
            assert part.steps == 3
            seen.append([part._place(step, at) for step in range(3) for at in range(part.share)])
        assert sorted(place for each in seen for place in each) == list(range(18))


def test_processes_that_do_not_divide_a_step_are_refused(
    options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Processes, "started", lambda: Processes(0, 2, 0))
    with pytest.raises(OptionError, match=r"expected a multiple of 2.*got 3; add --accumulate 2"):
        train_questions(options(accumulate=3))
