"""A library in shards on Ray: an actor per shard, which opens its store, and how it is called.

The server with its limits stays in the process of `attar serve`; what runs on Ray are the shards.
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

# Seconds between two looks at a shard.
_PERIOD = 0.5
# Seconds until a shard must have answered a look; after more of them its process is ended, and Ray starts it again.
_SILENCE = 3.0
_HUNG = 10.0
# Seconds until a shard must have started.
_START = 180.0
# Seconds after which a call that waits looks whether its shard still runs.
_SLICE = 0.25
# Calls that a process takes at the same time; further ones wait in Ray. Looks at it have a thread of their own.
_ONGOING = 64
_LOOKS = "looks"


class ShardServer:
    """The process of a shard: opens the store, and does work for others."""

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
                # The first question must not wait for it.
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


class RayShard:
    """A shard on Ray, and whether it answers: a thread looks, so that no request waits for a restart."""

    def __init__(self, name: str, actor: Any) -> None:
        self._name, self._actor = name, actor
        self._running, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)

    def wait(self) -> None:
        """Wait until it runs; why it does not is one line, with its shard."""
        import ray

        remedy = "see the logs of Ray, and whether the cluster has a free CPU, or GPU, for each shard"
        try:
            fault = ray.get(self._look(), timeout=_START)
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnavailableError(f"{self._name} does not start: {lines[-1][:200]}", remedy) from error
        if fault is not None:
            raise UnavailableError(f"{self._name} does not start: {fault}")
        self._running.set()
        self._thread.start()

    def _look(self) -> Any:
        return self._actor.look.options(concurrency_group=_LOOKS).remote()

    def call(self, work: Work[Result], kind: Kind) -> Result:
        import ray

        if not self._running.is_set():
            raise ShardLostError(self._name)
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
                if not self._running.is_set():
                    raise ShardLostError(self._name) from None
            except ray.exceptions.RayActorError as error:
                self._running.clear()
                raise ShardLostError(self._name) from error
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
                self._running.clear()
                if silent > _HUNG:
                    silent = 0.0
                    with contextlib.suppress(Exception):  # it has just died
                        ray.kill(self._actor, no_restart=False)
            except Exception:  # whatever Ray raises: it does not answer
                self._running.clear()
            else:
                (self._running.set if fault is None else self._running.clear)()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()


def open_shards(settings: Settings) -> ShardedLibrary:
    """Open all shards of a library in this process."""
    return ShardedLibrary([LocalShard(open_library(settings, path)) for path in shard_paths(settings.store)])


@contextlib.contextmanager
def served_shards(settings: Settings, address: str | None = None) -> Iterator[ShardedLibrary]:
    """Start the shards of a library on Ray, a process each, here or on a cluster; they end with it."""
    manifest = read_manifest(settings.store)
    if address is None:
        # All are on this machine: what is wrong with them is known at once. Elsewhere each process looks at its own.
        shard_paths(settings.store)
    with connected(address, cpus=len(manifest.shards)), contextlib.ExitStack() as stack:
        shards = _start(manifest, settings, stack)
        for shard in shards:
            shard.wait()
        with ShardedLibrary(shards, at_once=True) as library:
            library.check_readers()
            yield library


def _start(manifest: Manifest, settings: Settings, stack: contextlib.ExitStack) -> list[RayShard]:
    """Start the processes of all shards; on a device each has a GPU."""
    import ray

    cluster: dict[str, float] = ray.cluster_resources()
    gpus, count = cluster.get("GPU", 0.0), len(manifest.shards)
    on_gpu = is_gpu(settings.device)
    if on_gpu and gpus < count:
        message = f"--device {settings.device} needs a GPU for each of {count} shards"
        raise OptionError(f"{message}, and the cluster has {gpus:g}", "leave it out, or make fewer shards")
    shards = []
    for number in range(count):
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
        actor = server.remote(_on_any_machine(settings), manifest, number)
        stack.callback(ray.kill, actor)
        shards.append(RayShard(f"shard {number}", actor))
    return shards


def _on_any_machine(settings: Settings) -> Settings:
    """Settings whose paths other processes find, without tokens; a reader may be one of the package."""
    reader = settings.reader
    if reader is not None and reader.is_dir():
        reader = reader.absolute()
    return replace(
        settings, store=settings.store.absolute(), reader=reader, token=None, read_tokens=frozenset()
    )
