"""`make way`: the files of attar/ that a document and a question pass through, in order.

A file counts if one of its functions runs. Code that runs only because a module is imported does not
count. Files named `fast_*` are listed but not counted: each is a faster twin of a file that one may read instead.
"""

import argparse
import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PACKAGE = Path(__file__).resolve().parents[1] / "attar"
PAGE = PACKAGE.parent / "docs" / "architecture.md"
TEXT = "Captain Marlow came back to Saltmere. Agnes Pell gave him his old room. Agnes married Tobias Finch."
OTHER = "Agnes Pell sold the house in Saltmere. Tobias Finch went to sea."
QUESTION = "Who gave Marlow his old room?"
# CPython's flag of code that is a function's, and not a module's or a class's body.
FUNCTION = 0x1


class Trace:
    """Notes the functions of attar/ that run while it is recording, in every thread that starts after it."""

    def __init__(self) -> None:
        self.recording = False
        self.files: dict[str, set[str]] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not self.recording or not code.co_flags & FUNCTION:
            return
        if not code.co_filename.startswith(f"{PACKAGE}{os.sep}") or importing(frame):
            return
        file = str(Path(code.co_filename).relative_to(PACKAGE.parent))
        self.files.setdefault(file, set()).add(code.co_qualname)


def importing(frame: FrameType) -> bool:
    """Whether the frame runs because a module of attar/ is being imported."""
    above: FrameType | None = frame
    while above is not None:
        code = above.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(str(PACKAGE)):
            return True
        above = above.f_back
    return False


@contextlib.contextmanager
def traced() -> Iterator[Trace]:
    """A trace that hears of every call."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def trace_command(*arguments: str) -> dict[str, set[str]]:
    """The files that `attar ARGUMENTS` passes through."""
    from attar.cli.main import make_app

    app = make_app(*arguments[:1])
    with traced() as trace, contextlib.redirect_stdout(io.StringIO()):
        trace.recording = True
        app(list(arguments), standalone_mode=False)
    return trace.files


def trace_request(store: Path) -> dict[str, set[str]]:
    """The files that `POST /v1/ask` passes through, on a server that has answered another question."""
    import httpx
    import uvicorn

    from attar.server.app import make_app
    from attar.server.run import uvicorn_options
    from attar.server.settings import Settings

    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/ask"
    with traced() as trace:
        settings = Settings(store=store)
        server = uvicorn.Server(uvicorn.Config(make_app(settings), **uvicorn_options(settings)))
        running = threading.Thread(target=server.run, args=([listening],))
        running.start()
        while not server.started:
            time.sleep(0.01)
        try:
            # A search is answered when the signatures are loaded, which is no part of the way.
            search = url.replace("/ask", "/search")
            httpx.post(search, json={"query": "Who came back?"}, timeout=60).raise_for_status()
            httpx.post(url, json={"document": "marlow", "question": "Who came back?"}).raise_for_status()
            trace.recording = True
            httpx.post(url, json={"document": "marlow", "question": QUESTION}).raise_for_status()
            trace.recording = False
        finally:
            server.should_exit = True
            running.join()
            listening.close()
    return trace.files


def trace_all() -> dict[str, dict[str, set[str]]]:
    """The ways of a document, of a question, of one to all documents, and of a question over HTTP."""
    from attar.library.library import Library

    with tempfile.TemporaryDirectory() as folder:
        text, store = Path(folder) / "marlow.txt", Path(folder) / "library"
        text.write_text(TEXT)
        ways = {
            "attar add": trace_command("add", str(store), str(text)),
            "attar ask": trace_command("ask", str(store), "marlow", QUESTION),
        }
        with Library(store) as library:  # a question to the only document asks that
            library.add("pell", OTHER)
        return ways | {
            "attar ask STORE QUESTION": trace_command("ask", str(store), QUESTION),
            "POST /v1/ask": trace_request(store),
        }


def counted(files: dict[str, set[str]]) -> list[str]:
    """The files that count: all but the fast twins."""
    return [file for file in files if not Path(file).name.startswith("fast_")]


def with_lists(page: str, ways: dict[str, dict[str, set[str]]]) -> str:
    """The page with the files of each way between its two comments.

    >>> with_lists("<!-- way: a -->\\nold\\n<!-- end -->", {"a": {"attar/x.py": {"f"}}}).splitlines()
    ['<!-- way: a -->', '`a` passes through 1 files: `x.py`.', '<!-- end -->']
    """
    for name, files in ways.items():
        start = page.index(f"<!-- way: {name} -->\n") + len(f"<!-- way: {name} -->\n")
        listed = ", ".join(f"`{file.removeprefix('attar/')}`" for file in counted(files))
        line = f"`{name}` passes through {len(counted(files))} files: {listed}.\n"
        page = page[:start] + line + page[page.index("<!-- end -->", start) :]
    return page


def main() -> None:
    """Print the ways, or write them into the page of the architecture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the files of each way as JSON")
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.name}")
    arguments = parser.parse_args()
    ways = trace_all()
    if arguments.json:
        print(json.dumps({name: counted(files) for name, files in ways.items()}, indent=2))
        return
    if arguments.write:
        PAGE.write_text(with_lists(PAGE.read_text(), ways))
    for name, files in ways.items():
        print(f"{name}: {len(counted(files))} files")
        for file, functions in files.items():
            print(f"  {file} ({len(functions)})")


if __name__ == "__main__":
    main()
