"""Every command in the documentation exists, with its options, also where it is not run."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import typer.main

from attar.cli.main import make_app

ROOT = Path(__file__).resolve().parents[2]
COMMAND_LINE = typer.main.get_command(make_app())
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
COMMAND = re.compile(r"(?:attar|make|pip|python) .+|\.venv/bin/\S+(?: .+)?")


def test_commands_in_blocks_exist(page):
    for block in page.blocks:
        if block.kind in ("sh", ""):
            for line in block.lines:
                check(line)


def test_commands_in_sentences_exist(page):
    for span in page.spans:
        if COMMAND.fullmatch(span):
            check(span)


def test_options_in_sentences_exist(page):
    mentioned = {
        option for span in page.spans if span.startswith("--") for option in options_in(span.split())
    }
    assert mentioned - all_options(COMMAND_LINE) == set()


def test_the_first_page_names_every_extra():
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert {extra for extra in EXTRAS - {"dev"} if f"| `{extra}` |" not in page} == set()


def check(line: str) -> None:
    """Refuse a line whose command, or one of its options, does not exist; other programs are not checked."""
    words = shlex.split(line.replace("…", "x"), comments=True)
    words = words[next((i for i, word in enumerate(words) if not re.fullmatch(r"[A-Z_]+=\S*", word)), 0) :]
    program, rest = (words[0].removeprefix(".venv/bin/"), words[1:]) if words else ("", [])
    if program == "attar":
        check_attar(rest)
    elif program == "make":
        assert not rest or rest[0] in TARGETS, f"no rule {rest[0]}"
    elif program == "pip":
        extras = {extra for names in re.findall(r"\[([\w,]+)\]", line) for extra in names.split(",")}
        assert extras <= EXTRAS, f"no extra {extras - EXTRAS}"
    elif program == "python" and rest[:1] == ["-m"]:
        assert importlib.util.find_spec(rest[1]), f"no module {rest[1]}"
    elif program == "python" and rest:
        assert (ROOT / rest[0]).is_file(), f"no script {rest[0]}"


def check_attar(words: list[str]) -> None:
    command, name = COMMAND_LINE, "attar"
    while words and words[0] in getattr(command, "commands", {}):
        name, command, words = f"{name} {words[0]}", command.commands[words[0]], words[1:]
    # After the name of a group, options alone may follow; `x` stands for "and so on".
    below = getattr(command, "commands", {})
    assert not below or not words or words[0].startswith("-") or words == ["x"], f"no {name} {words[0]}"
    unknown = {option for option in options_in(words) if option not in own_options(command)}
    assert not unknown, f"{name} does not take {unknown}"


def own_options(command) -> set[str]:
    return {"-h", "--help"} | {
        option for each in command.params for option in (*each.opts, *each.secondary_opts)
    }


def all_options(command) -> set[str]:
    """The options of a command and of all below it."""
    below = getattr(command, "commands", {}).values()
    return own_options(command).union(*map(all_options, below))


def options_in(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
