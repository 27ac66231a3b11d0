"""Accuracy against bytes, and ablations: both run on tiny sets, and say what they measured."""

from pathlib import Path

import pytest

from attar.reader.reader import Reader
from attar.training.questions.base import load_base
from attar.training.questions.data import read_passages
from attar.training.questions.train import train_questions
from benchmarks import question_ablation, question_budgets

from .conftest import MakeOptions

pytestmark = [pytest.mark.usefixtures("unchecked_shapes"), pytest.mark.slow]


def test_budgets_and_ablations(
    options: MakeOptions,
    data: tuple[Path, Path],
    base: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = options("reader", values=4, epochs=1, quick_layers=0)
    train_questions(given)
    reader = Reader.load(given.out)
    documents = question_budgets.sample(read_passages(data[0]), 20, 2)
    rows = question_budgets.rows_of(reader, documents, names=False, say=lambda line: None)
    kinds = {row["memory"] for row in rows}
    assert kinds == {"phrases", "keyed", "keyed, ridge"}
    assert all(row["largest"] <= (row["budget"] or 16_384) for row in rows)
    assert rows[0]["too_small"] == rows[0]["documents"] or rows[0]["bytes"] <= 500
    question_budgets.draw(rows, tmp_path / "figures" / "budgets.png")
    assert (tmp_path / "figures" / "budgets.png").stat().st_size > 1_000

    question_ablation.main(
        data=[data[0]], base=str(base), out=tmp_path / "ablation", epochs=1, seeds=2, only="half as many"
    )
    printed = capsys.readouterr().out
    assert "| half as many phrases | 2 |" in printed
    assert (tmp_path / "ablation" / "half-as-many-phrases-1" / "result.json").is_file()


def test_the_base_may_be_in_int8(base: Path, tmp_path: Path) -> None:
    import safetensors.torch
    import torch

    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((base / name).read_bytes())
    packed = {}
    for name, value in safetensors.torch.load_file(base / "model.safetensors").items():
        if value.ndim == 2 and len(value) > 8:
            scale = value.abs().amax(1) / 127
            packed[name] = (value / scale[:, None]).round().to(torch.int8)
            packed[name.removesuffix(".weight") + ".scale"] = scale
        else:
            packed[name] = value
    safetensors.torch.save_file(packed, tmp_path / "model.safetensors")
    exact, found = load_base(base), load_base(tmp_path)
    assert exact.shape == found.shape
    for name, value in exact.weights.items():
        torch.testing.assert_close(found.weights[name], value, atol=0.003, rtol=0)
