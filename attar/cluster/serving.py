"""A library in shards on Ray Serve: one deployment per shard, and how it is called.

The server with its limits stays in the process of `attar serve`; what runs on Ray are the shards. With one replica a
shard is one process that reads and writes. With more, the replicas read, and a deployment of its own with exactly one
process writes: LMDB shows the readers each change at once, as they are on the same machine.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attar.cluster.connection import connected
from attar.cluster.shard import WRITES, ShardBackend, reply_to
from attar.cluster.sharded import ShardedLibrary
from attar.cluster.shards import Manifest, check_shard, read_manifest, shard_paths
from attar.errors import OptionError, ReaderMismatchError, UnavailableError
from attar.library.library import Library
from attar.server.settings import Settings

# Seconds between two looks at a shard, until it must have answered one, and until it must have started.
_PERIOD, _SILENCE, _START = 0.5, 3.0, 180.0
# Seconds after which a call that waits looks whether its shard still runs.
_SLICE = 0.25
# Calls that a process takes at the same time; further ones wait in Ray.
_ONGOING = 64
_METHODS = {
    "answer": "ask",
    "rounds": "search",
    "prepare_search": "search",
}


@dataclass(frozen=True)
class Replicas:
    """How many processes answer for a shard: from `least` to `most`, by Ray Serve's autoscaling if they differ.

    >>> Replicas.parse("2"), Replicas.parse("1:4")
    (Replicas(least=2, most=2), Replicas(least=1, most=4))
    """

    least: int = 1
    most: int = 1

    @classmethod
    def parse(cls, written: str) -> "Replicas":
        """Read N or MIN:MAX."""
        parts = written.split(":")
        if len(parts) in (1, 2) and all(part.isascii() and part.isdigit() for part in parts):
            least, most = int(parts[0]), int(parts[-1])
            if 1 <= least <= most <= 1_000:
                return cls(least, most)
        raise OptionError.expected("--replicas", "N or MIN:MAX, from 1 to 1000", repr(written))

    def options(self) -> dict[str, Any]:
        """Ray Serve's options."""
        if self.least == self.most:
            return {"num_replicas": self.least}
        return {"autoscaling_config": {"min_replicas": self.least, "max_replicas": self.most}}


class ShardServer:
    """The process of a shard: opens the store, and answers calls."""

    def __init__(
        self,
        folder: str,
        manifest: Manifest,
        number: int,
        reader: str | None,
        read_only: bool,
        keep_text: bool,
        lists_from: int | None = None,
    ) -> None:
        path = check_shard(Path(folder), manifest, number)
        options: dict[str, Any] = {"read_only": read_only, "keep_text": keep_text, "lists_from": lists_from}
        library = Library(path, reader, create=False, **options)
        self._backend = ShardBackend(library)
        # Any process of the shard may get the next question to all documents: none of them loads the reader then.
        self._backend.prepare()
        # One call of a kind at a time, as in a server of one process: a long change does not hold questions up.
        self._locks = {kind: threading.Lock() for kind in ("ask", "search", "write", "read")}

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a method of `ShardBackend`, or its error."""
        kind = "write" if method in WRITES else _METHODS.get(method, "read")
        with self._locks[kind]:
            return reply_to(self._backend, method, arguments)

    async def ping(self) -> bool:
        """Whether the process answers."""
        return True


class _Deployment:
    """A deployment, and whether it answers: a thread looks, so that no request waits for one that is restarted."""

    def __init__(self, name: str, handle: Any, replicas: int) -> None:
        self.name, self.running, self.replicas = name, True, replicas
        self._handle, self._closed = handle, threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)
        self._thread.start()

    def submit(self, method: str, arguments: tuple[Any, ...], repeat: bool) -> Callable[[], Any]:
        """Start a call; `repeat`: once more if the process dies, as it changes nothing."""
        if not self.running:
            raise self._unavailable()
        response = self._handle.call.remote(method, arguments)
        return lambda: self._result(response, method, arguments, repeat)

    def _result(self, response: Any, method: str, arguments: tuple[Any, ...], repeat: bool) -> Any:
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import RayServeException

        while True:
            try:
                reply = response.result(timeout_s=_SLICE)
                break
            except TimeoutError:
                # Ray keeps calls of a process that died until it runs again; their clients are told to come back.
                if not self.running:
                    response.cancel()
                    raise self._unavailable() from None
            except (RayActorError, RayServeException) as error:
                if repeat and self.replicas > 1:
                    return self.submit(method, arguments, False)()
                self.running = False
                raise self._unavailable() from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _unavailable(self) -> UnavailableError:
        remedy = "try again; Ray restarts it"
        return UnavailableError.expected(self.name, "a running process", "one that does not answer", remedy)

    def _watch(self) -> None:
        while not self._closed.wait(_PERIOD):
            try:
                self._handle.ping.remote().result(timeout_s=_SILENCE)
                self.running = True
            except Exception:  # whatever Ray raises: it does not answer
                self.running = False

    def close(self) -> None:
        """Stop the health check."""
        self._closed.set()
        self._thread.join()


class RayShard:
    """A shard on Ray: its readers, and its one writer."""

    def __init__(self, readers: _Deployment, writer: _Deployment) -> None:
        self.readers, self.writer = readers, writer

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Start a call."""
        if method in WRITES:
            return self.writer.submit(method, arguments, False)
        return self.readers.submit(method, arguments, True)

    def close(self) -> None:
        """Stop looking at it; its processes end with the application."""
        self.readers.close()
        if self.writer is not self.readers:
            self.writer.close()


@contextlib.contextmanager
def served_shards(
    settings: Settings, address: str | None = None, replicas: Replicas | None = None
) -> Iterator[ShardedLibrary]:
    """Start the shards of a library on Ray, on this machine or on the cluster at an address; they end with it."""
    replicas = replicas or Replicas()
    manifest = read_manifest(settings.store)
    if address is None:
        # All are on this machine: what is wrong with them is known at once. Elsewhere each process looks at its own.
        shard_paths(settings.store)
    processes = len(manifest.shards) * (replicas.most + (replicas.most > 1))
    with connected(address, cpus=processes), contextlib.ExitStack() as stack:
        shards = []
        for number, handles in enumerate(_start(manifest, settings, replicas, stack)):
            readers = _Deployment(f"shard {number}", handles[0], replicas.most)
            writer = readers if len(handles) == 1 else _Deployment(f"shard {number}", handles[1], 1)
            shards.append(RayShard(readers, writer))
        library = ShardedLibrary(shards)
        try:
            _check_readers(library)
            yield library
        finally:
            library.close()


def _check_readers(library: ShardedLibrary) -> None:
    """Refuse shards of different readers."""
    deadline = time.monotonic() + _START
    numbers = range(len(library.shards))
    while True:
        found = library.scatter("fingerprint", dict.fromkeys(numbers, ()))
        fault = next((each for each in found.values() if isinstance(each, UnavailableError)), None)
        if fault is None:
            break
        if time.monotonic() > deadline:
            raise fault
        time.sleep(_PERIOD)  # a busy machine may be silent for some seconds
    for number, reader in found.items():
        if reader != found[min(found)]:
            what, came = (
                f"shards of one reader ({found[min(found)][:12]})",
                f"{reader[:12]} in shard {number}",
            )
            raise ReaderMismatchError.expected("library", what, came, "attar reread that shard")


def _start(
    manifest: Manifest, settings: Settings, replicas: Replicas, stack: contextlib.ExitStack
) -> list[list[Any]]:
    """Start the deployments of all shards, and wait until they run; the handles of each shard's."""
    import logging

    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="Disabled")
    targets, names = [], []
    prefix, folder = f"attar-{manifest.id[:12]}", str(settings.store.absolute())
    for number in range(len(manifest.shards)):
        own = [(f"{prefix}-{number}", replicas, settings.read_only or replicas.most > 1)]
        if replicas.most > 1 and not settings.read_only:
            own.append((f"{prefix}-{number}-writer", Replicas(), False))
        for name, count, read_only in own:
            deployment = serve.deployment(
                name="shard",
                max_ongoing_requests=_ONGOING,
                health_check_period_s=1.0,
                health_check_timeout_s=10.0,
                graceful_shutdown_timeout_s=5.0,
                ray_actor_options={"num_cpus": 1} | _place(number),
                **count.options(),
            )(ShardServer)
            reader = None if settings.reader is None else _absolute(settings.reader)
            given = (folder, manifest, number, reader, read_only, settings.keep_text, settings.lists_from)
            application = deployment.bind(*given)
            targets.append(serve.RunTarget(application, name=name, route_prefix=None))
        names.append([name for name, *_ in own])
    stack.callback(_stop, [name for each in names for name in each])
    serve.run_many(targets, wait_for_applications_running=False)
    _wait({name: number for number, each in enumerate(names) for name in each})
    return [[serve.get_app_handle(name) for name in each] for each in names]


def _place(number: int) -> dict[str, Any]:
    """The resource of the machine that holds a shard's folder, if the cluster names one."""
    import ray

    name = f"attar-shard-{number}"
    known: dict[str, float] = ray.cluster_resources()
    return {"resources": {name: 0.001}} if name in known else {}


def _wait(names: dict[str, int]) -> None:
    """Wait until the applications of shards, by number, run; one that fails is reported in one line."""
    from ray import serve

    deadline = time.monotonic() + _START
    while True:
        found = serve.status().applications
        states = {name: str(found[name].status) for name in names if name in found}
        if all(states.get(name, "").endswith("RUNNING") for name in names):
            return
        late = time.monotonic() > deadline
        for name, state in states.items():
            if state.endswith("DEPLOY_FAILED") or (late and not state.endswith("RUNNING")):
                deployments = found[name].deployments.values()
                message = next((each.message for each in deployments if each.message), found[name].message)
                came = _reason(message) or state
                remedy = "see the logs of Ray, and whether the cluster has a free CPU for each process"
                raise UnavailableError.expected(f"shard {names[name]}", "a process that starts", came, remedy)
        time.sleep(0.2)


def _reason(message: str) -> str:
    """What went wrong, of a message of Ray that holds a trace: the error of attar, or the last line.

    >>> _reason("Failed. Error:\\n  File x\\nattar.errors.StoreError: shard 1 of a: expected b, got c\\n\\n")
    'shard 1 of a: expected b, got c'
    >>> _reason("Resources: no node has 1 CPU")
    'Resources: no node has 1 CPU'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("attar.errors.") and ": expected " in line]
    if ours:
        return ours[-1].partition(": ")[2][:400]
    return lines[-1][:200] if lines else ""


def _stop(names: list[str]) -> None:
    from ray import serve

    for name in names:
        with contextlib.suppress(Exception):  # a cluster that is gone has stopped them
            serve.delete(name, _blocking=False)


def _absolute(reader: Path) -> str:
    """A reader's folder as other processes find it, or the name of one of the package."""
    return str(reader.absolute() if reader.is_dir() else reader)
