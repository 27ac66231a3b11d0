"""What the README shows runs as it is written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import attar

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_block_runs_and_does_what_its_comments_say(tmp_path, monkeypatch):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert "Agnes Pell" in names["memory"].names.names
    with attar.Library("library") as library:
        answers = library.ask("harbour", "___ wrote to Clara .")
    assert {answer.name for answer in answers} == {"Clara Finch", "Edmund", "Saltmere"}


def test_the_commands_on_ones_own_texts_run(tmp_path):
    (shown,) = re.findall(r"^make demo\n(\.venv/bin/attar .*?)```", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "letters.txt").write_text("Bob Hale wrote to Ann in May. Ann lives in Bath.")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "today.txt").write_text("Ann met Clara Finch in Bath.")
    for line in shown.strip().splitlines():
        command = [sys.executable, "-m", "attar", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "Bob Hale" in done.stdout


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_make_knows_the_commands():
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    rules = (ROOT / "Makefile").read_text()
    assert commands
    assert [command for command in commands if f"\n{command}:" not in rules] == []
