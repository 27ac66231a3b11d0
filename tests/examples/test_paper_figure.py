"""The notebook of the paper's figure: its cells run in order, in one process, on fewer stories."""

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = json.loads((EXAMPLES / "paper_figure.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_its_cells_draw_the_figure(tmp_path):
    smaller = {"stories": 16, "epochs": 1, "mechanisms": ["none", "gated"], "folder": tmp_path}
    names = {}
    for number, cell in enumerate(CODE):
        exec(compile("".join(cell["source"]), f"paper_figure.ipynb, code cell {number}", "exec"), names)
        if "parameters" in cell["metadata"].get("tags", []):
            names |= smaller
    assert list(names["report"].mechanisms) == ["none", "gated"]
    assert all(len(row.validation[0]) == 1 for row in names["report"].mechanisms.values())
    assert (tmp_path / "report" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_default_mechanisms_are_those_of_the_paper():
    names = {}
    exec("".join(CODE[0]["source"]), names)
    assert names["mechanisms"] == ["none", "linear", "gated", "softmax"]


def test_the_notebook_is_committed_without_outputs():
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"] is not None] == []
