"""What other programs read for us: text in pictures (Tesseract), and files of older Office programs (LibreOffice).

The child process that parses files may start no program, so these run next to it, within the same limits: memory, CPU
time, wall-clock time, in a folder of their own that goes afterwards. They get bytes, never a stranger's file name.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from attar.documents.extracted import SourceDocument, check_size
from attar.documents.pdf import join_pages
from attar.errors import FormatError, MissingError
from attar.options import FileLimits
from attar.progress import check_stopped

# What LibreOffice makes of older files.
CONVERTED = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
# What all of them begin with: they are compound files.
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
_OFFICE, _OCR = "soffice", "tesseract"
INSTALL_OCR = "install tesseract to read text in pictures"
# Seconds between two looks at whether the work was stopped.
_PAUSE = 0.2
# Limits are set in the new process, before it becomes the program: that is safe next to other threads.
_LAUNCH = """
import os, resource, sys
memory, seconds = map(int, sys.argv[1:3])
for what, most in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0),
                   (resource.RLIMIT_FSIZE, 2**30)):
    resource.setrlimit(what, (most, most))
os.execvp(sys.argv[3], sys.argv[3:])
"""


def has_ocr() -> bool:
    """Whether text in pictures can be read."""
    return shutil.which(_OCR) is not None


def has_office() -> bool:
    """Whether files of older Office programs can be read."""
    return shutil.which(_OFFICE) is not None


def recognise(where: str, pictures: Sequence[bytes], title: str, limits: FileLimits) -> SourceDocument:
    """The text in pictures of pages, in order."""
    if not has_ocr():
        count = f"{len(pictures)} page{'s' * (len(pictures) != 1)}"
        raise MissingError(f"{where} has no text: {count} of pictures", INSTALL_OCR)
    pages = []
    deadline = time.monotonic() + limits.seconds
    for picture in pictures:
        with tempfile.TemporaryDirectory() as folder:
            found = _run(where, [_OCR, "stdin", "stdout"], folder, picture, limits, deadline)
        pages.append(found.decode("utf-8", "replace").replace("\f", ""))
    return join_pages(pages, title)


def convert(where: str, suffix: str, stream: IO[bytes], limits: FileLimits) -> bytes:
    """A file of an older Office program as the newer kind."""
    head = stream.read(len(_COMPOUND))
    if head != _COMPOUND:  # LibreOffice would read a page under this name, and fetch what it links to
        raise FormatError(f"{where} is not a {suffix[1:].upper()} file, or is damaged", "leave it out")
    stream.seek(0)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/file{suffix}", "wb") as given:
            shutil.copyfileobj(stream, given)
        target = CONVERTED[suffix]
        command = [
            _OFFICE, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore", "--convert-to",
            target[1:], "--outdir", f"{folder}/made", f"{folder}/file{suffix}",
        ]  # fmt: skip
        _run(where, command, folder, b"", limits, time.monotonic() + limits.seconds)
        made = Path(folder, "made", f"file{target}")
        if not made.is_file():
            raise FormatError(f"{where} is not a {suffix[1:].upper()} file, or is damaged", "leave it out")
        check_size(where, made.stat().st_size, limits.max_decompressed)
        return made.read_bytes()


def _run(
    where: str, command: Sequence[str], folder: str, data: bytes, limits: FileLimits, deadline: float
) -> bytes:
    """Run a program within limits, and return what it prints."""
    environment = {name: os.environ[name] for name in ("PATH", "TESSDATA_PREFIX") if name in os.environ}
    environment |= {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "OMP_THREAD_LIMIT": "1"}
    most = [str(limits.max_file_memory_mb * 2**20), str(limits.max_file_seconds)]
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, *most, *command]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(data)
        given.seek(0)
        process = subprocess.Popen(
            launch, stdin=given, stdout=printed, stderr=subprocess.DEVNULL, cwd=folder, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                check_stopped()
                if time.monotonic() > deadline:
                    raise FormatError(
                        f"{where}: reading it took more than {limits.seconds:.0f} s", "leave it out"
                    )
                try:
                    process.wait(_PAUSE)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            raise FormatError(
                f"{where} cannot be read by {command[0]}, or takes too much memory or time", "leave it out"
            )
        printed.seek(0)
        return printed.read()
