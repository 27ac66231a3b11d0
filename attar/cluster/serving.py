"""A library in shards on Ray: some processes per shard, actors that open its store, and how they are called.

The server with its limits stays in the process of `attar serve`; what runs on Ray are the shards. All processes of a
shard read and write its store, as the workers of a server without Ray do: they are on the same machine.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from attar.cluster.connection import connected, is_gpu
from attar.cluster.sharded import Kind, LocalShard, Result, ShardedLibrary, ShardLostError, Work
from attar.cluster.shards import Manifest, check_shard, read_manifest, shard_paths
from attar.errors import AttarError, OptionError, UnavailableError
from attar.library.library import Library
from attar.progress import StoppedError, check_stopped
from attar.server.settings import Settings, open_library

# Seconds between two looks at a process.
_PERIOD = 0.5
# Seconds until a process must have answered a look; after more of them it is ended, and Ray starts it again.
_SILENCE = 3.0
_HUNG = 10.0
# Seconds until a process must have started.
_START = 180.0
# Seconds after which a call that waits looks whether its process still runs.
_SLICE = 0.25
# Calls that a process takes at the same time; further ones wait in Ray. Looks at it have a thread of their own.
_ONGOING = 64
_LOOKS = "looks"


class ShardServer:
    """A process of a shard: opens the store, and does work for others."""

    def __init__(self, settings: Settings, manifest: Manifest, number: int) -> None:
        self._settings, self._manifest, self._number = settings, manifest, number
        # One call of a kind at a time, as in a server of one process: a long change does not hold questions up.
        self._locks = {kind: threading.Lock() for kind in get_args(Kind)}
        self._library: Library | None = None
        self._opening = threading.Lock()

    def _opened(self) -> Library:
        with self._opening:
            if self._library is None:
                path = check_shard(self._settings.store, self._manifest, self._number)
                library = open_library(self._settings, path)
                # Any process of the shard may get the next question to all documents: none loads the reader then.
                library.reader.prepare(texts=False)
                library.defer_signatures()
                self._library = library
            return self._library

    def call(self, work: Work[Result], kind: Kind) -> Result | AttarError:
        """What the work returns, or its error: raised, it would come back with the trace of another process."""
        with self._locks[kind]:
            try:
                return work(self._opened())
            except AttarError as error:
                return error

    def look(self) -> AttarError | None:
        """Nothing, once the library is open, or why it cannot be opened."""
        try:
            self._opened()
        except AttarError as error:
            return error
        return None


class ShardProcess:
    """A process of a shard on Ray, and whether it answers: a thread looks, so that no request waits for a restart."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name, self._actor = name, actor
        self.running, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)

    def wait(self) -> None:
        """Wait until it runs; why it does not is one line, with its shard."""
        import ray

        remedy = "see the logs of Ray, and whether the cluster has a free CPU, or GPU, for each process"
        try:
            fault = ray.get(self._look(), timeout=_START)
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnavailableError(f"{self.name} does not start: {lines[-1][:200]}", remedy) from error
        if fault is not None:
            raise UnavailableError(f"{self.name} does not start: {fault}")
        self.running.set()
        self._thread.start()

    def _look(self) -> Any:
        return self._actor.look.options(concurrency_group=_LOOKS).remote()

    def call(self, work: Work[Result], kind: Kind) -> Result:
        import ray

        if not self.running.is_set():
            raise ShardLostError(self.name)
        reply = self._actor.call.remote(work, kind)
        while True:
            try:
                result: Result | AttarError = ray.get(reply, timeout=_SLICE)
                break
            except ray.exceptions.GetTimeoutError:
                try:
                    check_stopped()
                except StoppedError:
                    ray.cancel(reply)
                    raise
                if not self.running.is_set():
                    raise ShardLostError(self.name) from None
            except ray.exceptions.RayActorError as error:
                self.running.clear()
                raise ShardLostError(self.name) from error
        if isinstance(result, AttarError):
            raise result
        return result

    def _watch(self) -> None:
        import ray

        silent = 0.0
        while not self._closed.wait(_PERIOD):
            try:
                fault, silent = ray.get(self._look(), timeout=_SILENCE), 0.0
            except ray.exceptions.GetTimeoutError:
                fault, silent = None, silent + _SILENCE
                self.running.clear()
                if silent > _HUNG:
                    silent = 0.0
                    with contextlib.suppress(Exception):  # it has just died
                        ray.kill(self._actor, no_restart=False)
            except Exception:  # whatever Ray raises: it does not answer
                self.running.clear()
            else:
                (self.running.set if fault is None else self.running.clear)()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()


class RayShard:
    """A shard on Ray: calls go to its processes in turn."""

    def __init__(self, processes: list[ShardProcess]) -> None:
        self._processes = processes
        self._calls = 0

    def call(self, work: Work[Result], kind: Kind) -> Result:
        """The result of work, by any process that runs; what changes nothing is done once more if that dies."""
        self._calls += 1
        first = self._calls % len(self._processes)
        in_turn = [*self._processes[first:], *self._processes[:first]]
        running = [process for process in in_turn if process.running.is_set()]
        for process in running[:1] if kind == "write" else running:
            with contextlib.suppress(ShardLostError):
                return process.call(work, kind)
        raise ShardLostError

    def close(self) -> None:
        for process in self._processes:
            process.close()


def open_shards(settings: Settings) -> ShardedLibrary:
    """Open all shards of a library in this process."""
    return ShardedLibrary([LocalShard(open_library(settings, path)) for path in shard_paths(settings.store)])


@contextlib.contextmanager
def served_shards(
    settings: Settings, address: str | None = None, replicas: int = 1
) -> Iterator[ShardedLibrary]:
    """Start the shards of a library on Ray, each in some processes, here or on a cluster; they end with it."""
    manifest = read_manifest(settings.store)
    if address is None:
        # All are on this machine: what is wrong with them is known at once. Elsewhere each process looks at its own.
        shard_paths(settings.store)
    with connected(address, cpus=replicas * len(manifest.shards)), contextlib.ExitStack() as stack:
        shards = [RayShard(processes) for processes in _start(manifest, settings, replicas, stack)]
        with ShardedLibrary(shards, at_once=True) as library:
            library.check_readers()
            yield library


def _start(
    manifest: Manifest, settings: Settings, replicas: int, stack: contextlib.ExitStack
) -> list[list[ShardProcess]]:
    """Start the processes of all shards, and wait until they run; on a device each has a GPU."""
    import ray

    cluster: dict[str, float] = ray.cluster_resources()
    gpus, count = cluster.get("GPU", 0.0), replicas * len(manifest.shards)
    on_gpu = is_gpu(settings.device)
    if on_gpu and gpus < count:
        message = f"--device {settings.device} needs a GPU for each of {count} processes"
        raise OptionError(f"{message}, and the cluster has {gpus:g}", "leave it out, or make fewer shards")
    shards: list[list[ShardProcess]] = []
    for number in range(len(manifest.shards)):
        # The resource of the machine that holds the shard's folder, if the cluster names one.
        place = f"attar-shard-{number}"
        server = ray.remote(
            num_cpus=1,
            num_gpus=int(on_gpu),
            resources={place: 0.001} if place in cluster else None,
            max_restarts=-1,
            max_concurrency=_ONGOING,
            concurrency_groups={_LOOKS: 1},
        )(ShardServer)
        shards.append([])
        for _ in range(replicas):
            actor = server.remote(_on_any_machine(settings), manifest, number)
            stack.callback(ray.kill, actor)
            shards[-1].append(ShardProcess(f"shard {number}", actor))
    for processes in shards:
        for process in processes:
            process.wait()
    return shards


def _on_any_machine(settings: Settings) -> Settings:
    """Settings whose paths other processes find, without tokens; a reader may be one of the package."""
    reader = settings.reader
    if reader is not None and reader.is_dir():
        reader = reader.absolute()
    return replace(
        settings, store=settings.store.absolute(), reader=reader, token=None, read_tokens=frozenset()
    )
