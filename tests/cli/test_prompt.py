"""The prompt of `attar ask`: commands and mistakes."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from attar.cli.ask import Asking
from attar.cli.prompt import run_prompt
from attar.library.library import Library


@pytest.fixture
def session(filled, reader, capsys):
    """What the prompt prints for the lines that are typed, and the prompts it shows."""

    def run(*typed, document=None, store="S"):
        lines, prompts = iter(typed), []

        def read_line(prompt):
            prompts.append(prompt)
            line = next(lines, EOFError)
            if not isinstance(line, str):
                raise line
            return line

        with Library(store, reader, read_only=True) as library:
            capsys.readouterr()
            run_prompt(Asking(library, document, top=1), read_line)
        printed = capsys.readouterr()
        return printed.out.splitlines(), printed.err.splitlines(), prompts

    return run


def test_a_document_is_chosen_and_asked(session):
    lines, errors, prompts = session(":doc STORY1", "Who left?", "Who came?")
    assert lines[0] == "3 documents; :help shows the commands"
    assert len([line for line in lines if "%" in line]) == 2
    assert (errors, prompts) == ([], ["all> ", "story1> ", "story1> ", "story1> "])


def test_a_mistake_is_one_line_and_the_prompt_goes_on(session):
    lines, errors, prompts = session(":doc stry9", ":doc story", "?", ":doc sub/s", "Who left?", ":quit")
    assert ["%" in line for line in lines].count(True) == 1
    assert "did you mean" in errors[0]
    assert "type more of its name" in errors[1]
    assert len(errors) == 3
    assert prompts[-1] == "sub/story2> "


def test_help_all_and_quit_at_the_prompt(session):
    lines, _, prompts = session(":help", ":nonsense", ":all", "", KeyboardInterrupt, ":q", document="story0")
    assert any(line.startswith(":doc NAME") for line in lines)
    assert ":nonsense is none of the commands" in lines
    assert prompts[0] == "story0> "
    assert prompts[-1] == "all> "


@pytest.mark.parametrize("word", ["quit", "exit"])
def test_help_and_leaving_need_no_colon(session, word):
    lines, _, prompts = session("help", word, "Who left?")
    assert any(line.startswith(":doc NAME") for line in lines)
    assert len(prompts) == 2


@pytest.mark.slow
def test_a_terminal_gets_a_prompt_whose_arrow_keys_find_earlier_questions(filled, reader):
    shown = talk(["Who left?\n", "\x1b[A\n", "\x04"], "attar", "ask", "S", "story0", "--reader", reader)
    assert shown.count("%") == 10


def talk(typed, *command):
    """What a program prints in a terminal into which lines are typed, each at a new prompt."""
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", *map(str, command)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    program = subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown, waiting, deadline = "", list(typed), time.monotonic() + 60
    prompts = 0
    while time.monotonic() < deadline:
        if waiting and shown.count("story0> ") > prompts:
            prompts = shown.count("story0> ")
            os.write(ours, waiting.pop(0).encode())
        if select.select([ours], [], [], 0.05)[0]:
            try:
                shown += os.read(ours, 65536).decode()
            except OSError:  # it has ended
                break
    os.close(ours)
    assert program.wait(60) == 0
    return shown
