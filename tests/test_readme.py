"""What the README shows runs as it is written."""

import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_block_runs_and_does_what_its_comments_say():
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["memory"].shape == (2, 100, 100)
    assert names["readout"].shape == (2, 4, 100)
    torch.testing.assert_close(names["longer"], names["merged"], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(names["shorter"], names["memory"], rtol=1e-4, atol=1e-3)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_make_knows_the_commands():
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    rules = (ROOT / "Makefile").read_text()
    assert commands
    assert [command for command in commands if f"\n{command}:" not in rules] == []
