"""Every command in the documentation exists, with its options: also those that are not run."""

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from attar.cli.main import make_app

ROOT = Path(__file__).resolve().parents[2]
COMMAND_LINE = typer.main.get_command(make_app())
BENCHMARKS = [
    f"benchmarks.{name}"
    for name in (
        "cluster_reading",
        "cluster_serve",
        "compare_server",
        "crash",
        "damage",
        "floods",
        "overload",
        "reader",
        "scale",
        "server",
        "startup",
        "store",
        "training",
    )
]
KINDS = {"sh", "python", "text", "json", ""}
ATTAR = ("attar", ".venv/bin/attar")
# Within a sentence, or in a command's help, what begins so is a command.
COMMAND = re.compile(
    r"(?:\w+=\S+ )*(?:(?:attar|make|pip|python|torchrun|curl|source) .+|\.venv/bin/\S+(?: .+)?)"
)
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_every_block_is_of_a_kind_that_is_checked(page):
    assert {block.kind for block in page.blocks} <= KINDS
    assert page.text.count("```") == 2 * len(page.blocks), "a fence that is indented or left open"


def test_every_command_in_a_block_is_one_that_runs(page):
    for block in page.blocks:
        for line in block.lines:
            if block.kind in ("sh", ""):
                check(line, whole=True)
            elif block.kind == "text":
                said = line.strip().removeprefix("For example: ")
                if COMMAND.fullmatch(said):
                    check(said, whole=True)


def test_every_command_in_a_sentence_is_known_with_its_options(page):
    for span in page.spans:
        if ": expected " in span:  # a message, which test_troubleshooting.py checks
            continue
        if COMMAND.fullmatch(span):
            check(span, whole=False)
        elif span.startswith("--"):
            options = {option for option in options_in(span.split()) if option not in all_options()}
            assert not options, f"no command takes {options}"


def test_every_extra_is_declared(page):
    for names in re.findall(r"\battar\[([\w,]+)\]", page.text):
        assert set(names.split(",")) <= EXTRAS


def test_the_first_page_names_every_extra():
    page = (ROOT / "docs" / "index.md").read_text()
    assert {name for name in EXTRAS - {"dev"} if f"| `{name}` |" not in page} == set()


@pytest.mark.parametrize(
    "wrong",
    [
        "attar ad library letters.txt",
        "attar add library letters.txt --keep-texts",
        "attar ask",
        "attar train --data set --out reader --epochs many",
        "torchrun --nproc-per-node 2 -m attar trane",
        "make tests",
        "pip install 'attar[sever]'",
        "curl http://127.0.0.1:8000/v1/question",
        ".venv/bin/pytset",
        ".venv/bin/python examples/none.py",
        "python -m benchmarks.store --speed 3",
        "rm -rf library",
    ],
)
def test_a_command_that_is_not_there_is_found_out(wrong):
    with pytest.raises(AssertionError):
        check(wrong, whole=True)


def check(line: str, whole: bool) -> None:
    """Refuse a line whose command, or one of its options, does not exist; a whole one must be complete."""
    words = shlex.split(line.replace("…", "x"), comments=True)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    if not words:
        return
    program, rest = words[0], words[1:]
    if program in ATTAR:
        check_attar(rest, whole)
    elif program == "torchrun":
        assert rest[rest.index("-m") + 1] == "attar"
        check_attar(rest[rest.index("-m") + 2 :], whole)
    elif program == "make":
        assert not rest or rest[0] in TARGETS, f"no rule {rest}"
    elif program == "curl":
        check_curl(rest)
    elif program == "pip":
        assert rest[:1] == ["install"] if rest else not whole
        assert {each for names in re.findall(r"\[(.*?)\]", line) for each in names.split(",")} <= EXTRAS
    elif program in ("python", ".venv/bin/python"):
        check_python(rest)
    elif program == "source":
        assert rest == [".venv/bin/activate"]
    else:
        installed = shutil.which(program.removeprefix(".venv/bin/"), path=Path(sys.executable).parent)
        assert installed, f"neither run nor known: {line}"


def check_attar(words: list[str], whole: bool) -> None:
    """Follow the words down to their command, and let it read the rest."""
    command, name = COMMAND_LINE, "attar"
    while words and words[0] in getattr(command, "commands", {}):
        name = f"{name} {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    below = getattr(command, "commands", {})
    # Of a group, options alone may follow; `x` stands for "and so on".
    assert not below or not words or words[0].startswith("-") or words == ["x"], f"no {name} {words[0]}"
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    known |= set(getattr(command, "former", ()))  # the changelog has them
    unknown = {option for option in options_in(words) if option not in known | {"-h", "--help"}}
    assert not unknown, f"{name} does not take {unknown}"
    if whole and not below:
        try:
            command.make_context(name, words)
        except Exception as fault:
            raise AssertionError(f"{name} {words}: {fault}") from fault


def check_curl(words: list[str]) -> None:
    """The route must be one of the server's, with its method."""
    from attar.server.app import describe_api

    (url,) = (word for word in words if word.startswith("http"))
    path = re.sub(r"^https?://[^/]+", "", url).partition("?")[0]
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    routes = describe_api()["paths"].items()
    found = [methods for route, methods in routes if re.fullmatch(re.sub("{.*?}", "[^/]+", route), path)]
    assert any(method.lower() in methods for methods in found), f"no {method} {path}"


def check_python(words: list[str]) -> None:
    """A module that is installed, or a script of the repository that knows the options."""
    if words[:1] == ["-m"]:
        assert importlib.util.find_spec(words[1]) is not None
        if words[1] in BENCHMARKS:
            known = {option for each in benchmark_command(words[1]).params for option in each.opts}
            unknown = {option for option in options_in(words[2:]) if option not in known}
            assert not unknown, f"{words[1]} does not take {unknown}"
        return
    source = (ROOT / words[0]).read_text() if words and (ROOT / words[0]).is_file() else None
    assert source is not None, f"no script {words}"
    unknown = {option for option in options_in(words[1:]) if not is_taken(option, source)}
    assert not unknown, f"{words[0]} does not take {unknown}"


def benchmark_command(module: str):
    """The command of a module in benchmarks/."""
    benchmark = typer.Typer()
    benchmark.command()(importlib.import_module(module).main)
    return typer.main.get_command(benchmark)


def is_taken(option: str, source: str) -> bool:
    """Whether a script's main function, of which typer makes its options, has this one."""
    return option == "--help" or f"{option[2:].replace('-', '_')}:" in source


def options_in(words: list[str]) -> list[str]:
    """The options among words, without their values."""
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]


def all_options() -> set[str]:
    """Every option of every command."""
    found, waiting = {"--help"}, [COMMAND_LINE, *map(benchmark_command, BENCHMARKS)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        found |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        found |= set(getattr(command, "former", ()))
    return found
