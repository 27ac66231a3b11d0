"""Sources that Ray reads: files, folders and fsspec URLs, as a stream of documents in a fixed order."""

import contextlib
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from attar.documents.sources import (
    SkippedFile,
    SourceFile,
    document_name,
    find_files,
    is_known,
)
from attar.documents.workers import FileReader
from attar.errors import AttarError, FormatError
from attar.library.drafts import Draft, read_files
from attar.options import FileLimits

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Datasource

# Characters of documents that a task of Ray hands on at a time: what one actor encodes in some seconds, so that all of
# them have something to do, and a kill loses little. On a GPU that takes one second.
CHARACTERS = 2**15
CHARACTERS_ON_GPU = 2**22
# Bytes that a task reads at least, and characters per file: small files are as many as make a few blocks.
_TASK_BYTES = 2**20
_TASK_FILE = 2**9
# The one column of all blocks: lists of drafts, and of the errors of files that cannot be read, pickled.
_COLUMN = "documents"


class UrlFile(NamedTuple):
    """A file at an fsspec URL."""

    url: str
    name: str
    size: int


AnyFile: TypeAlias = SourceFile | UrlFile


class FoundSources(NamedTuple):
    """The files to read, in order, and those that are not read."""

    files: list[AnyFile]
    skipped: list[SkippedFile]

    @property
    def size(self) -> int:
        return sum(map(_size, self.files))


def find_sources(sources: Iterable[str]) -> FoundSources:
    """The files of paths and URLs, in a fixed order; `file://` is a path."""
    files: list[AnyFile] = []
    skipped: list[SkippedFile] = []
    for source in sources:
        source = source.removeprefix("file://")
        if "://" in source:
            files += _find_urls(source)
        else:
            here = find_files([source])
            files += here.files
            skipped += here.skipped
    return FoundSources(files, skipped)


def _find_urls(url: str) -> list[UrlFile]:
    """The file at a URL, or the files below it; they have the names that a folder's files would have."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(url)
        details = system.find(root, detail=True)
        names = {path: str(PurePosixPath(path).relative_to(root)) for path in sorted(details)}
        if list(names.values()) == ["."]:
            names = {path: PurePosixPath(path).name for path in names}
        else:
            names = {path: name for path, name in names.items() if is_known(name) and "/." not in f"/{name}"}
        if not names:
            raise FormatError(f"{url}: there are no documents", "check the URL")
        counts = Counter(map(document_name, names.values()))
        return [
            UrlFile(
                system.unstrip_protocol(path),
                document_name(name) if counts[document_name(name)] == 1 else name,
                int(details[path].get("size") or 0),
            )
            for path, name in names.items()
        ]
    except (OSError, ValueError, ImportError, NotImplementedError) as fault:
        if isinstance(fault, AttarError):
            raise
        raise FormatError(f"{url} cannot be read: {_line(fault)}") from fault


def read_documents(
    files: Iterable[AnyFile], limits: FileLimits | None = None
) -> Iterator[Draft | AttarError]:
    """Yield the checked documents of files, and the error of each that cannot be read."""
    with FileReader(limits) as reader:
        for file in files:
            faults: list[AttarError] = []
            if isinstance(file, SourceFile):
                drafts = read_files([file], faults.append, reader=reader)
            else:
                drafts = _read_url(file, faults.append, reader)
            for draft in drafts:
                yield from faults
                faults.clear()
                yield draft
            yield from faults


def _read_url(file: UrlFile, on_bad: Callable[[AttarError], None], reader: FileReader) -> Iterator[Draft]:
    import fsspec

    def bad(fault: AttarError) -> None:
        on_bad(FormatError(f"{file.url}: {fault}"))

    try:
        with fsspec.open(file.url, "rb") as opened:
            data = opened.read()
        for document in reader.read_bytes(PurePosixPath(file.url).name, data, name=file.name, on_bad=bad):
            yield Draft.of_source(document, file.url)
    except AttarError as fault:
        bad(fault)
    except (OSError, ValueError) as fault:
        on_bad(FormatError(f"{file.url} cannot be read: {_line(fault)}"))


def datasource(files: list[AnyFile], limits: FileLimits | None, characters: int = CHARACTERS) -> "Datasource":
    """The documents of files as a source of Ray Data, in blocks of characters; local files are read on this machine."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class Documents(Datasource):  # type: ignore[misc]
        """Files, some of them per task, in order."""

        def estimate_inmemory_data_size(self) -> int:
            return sum(map(_size, files))

        @property
        def supports_distributed_reads(self) -> bool:
            return not any(isinstance(file, SourceFile) for file in files)

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
            here = os.getcwd()
            return [
                ReadTask(
                    lambda group=group: _blocks(group, limits, here, characters),
                    BlockMetadata(None, sum(map(_size, group)), None, None),
                )
                for group in _groups(files, characters)
            ]

    return Documents()


def _size(file: AnyFile) -> int:
    return file.bytes if isinstance(file, SourceFile) else file.size


def _groups(files: list[AnyFile], characters: int) -> list[list[AnyFile]]:
    groups: list[list[AnyFile]] = []
    size = most = max(_TASK_BYTES, characters)
    for file in files:
        if size >= most or len(groups[-1]) >= characters // _TASK_FILE:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += _size(file)
    return groups


def _blocks(
    files: list[AnyFile], limits: FileLimits | None, here: str, characters: int
) -> "Iterator[pa.Table]":
    # The processes of a cluster that is running have another working directory, and paths may be relative.
    local = any(isinstance(file, SourceFile) for file in files)
    with contextlib.chdir(here) if local else contextlib.nullcontext():
        documents, size = list[Draft | AttarError](), 0
        for document in read_documents(files, limits):
            documents.append(document)
            size += len(document.text) if isinstance(document, Draft) else 0
            if size >= characters:
                yield to_table(documents)
                documents, size = [], 0
        if documents:
            yield to_table(documents)


def to_table(documents: "list[Draft | AttarError]") -> "pa.Table":
    """Documents as a block of Ray Data, in one row: Ray does not divide it, however large they are once encoded."""
    import pyarrow as pa

    row = pickle.dumps(documents, protocol=pickle.HIGHEST_PROTOCOL)
    return pa.table({_COLUMN: pa.array([row], pa.large_binary())})


def from_table(table: "pa.Table") -> list[Draft | AttarError]:
    """The documents of a block."""
    return [document for row in table[_COLUMN] for document in pickle.loads(row.as_buffer())]


def _line(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:120] or type(fault).__name__
