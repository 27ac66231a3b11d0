"""A library in shards on Ray Serve: one deployment per shard, and how it is called.

The server with its limits stays in the process of `attar serve`; what runs on Ray are the shards. With one replica a
shard is one process that reads and writes. With more, the replicas read, and a deployment of its own with exactly one
process writes: LMDB shows the readers each change at once, as they are on the same machine.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from attar.cluster.calls import Kind, Result, ShardLostError, Work
from attar.cluster.connection import connected
from attar.cluster.sharded import ShardedLibrary
from attar.cluster.shards import Manifest, check_shard, read_manifest, shard_paths
from attar.errors import AttarError, OptionError, UnavailableError
from attar.library.library import Library
from attar.server.settings import Settings

# Seconds between two looks at a shard.
_PERIOD = 0.5
# Seconds until a shard must have answered a look.
_SILENCE = 3.0
# Seconds until a shard must have started.
_START = 180.0
# Seconds after which a call that waits looks whether its shard still runs.
_SLICE = 0.25
# Calls that a process takes at the same time; further ones wait in Ray.
_ONGOING = 64


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
    """The process of a shard: opens the store, and does work for others."""

    def __init__(
        self,
        folder: str,
        manifest: Manifest,
        number: int,
        reader: str | None,
        read_only: bool,
        keep_text: bool,
        lists_from: int | None,
    ) -> None:
        self._library = Library(
            check_shard(Path(folder), manifest, number),
            reader,
            create=False,
            read_only=read_only,
            keep_text=keep_text,
            lists_from=lists_from,
        )
        # Any process of the shard may get the next question to all documents: none of them loads the reader then.
        self._library.reader.prepare(texts=False)
        # One call of a kind at a time, as in a server of one process: a long change does not hold questions up.
        self._locks = {kind: threading.Lock() for kind in get_args(Kind)}

    def call(self, work: Work[Result], kind: Kind) -> Result | AttarError:
        """What the work returns, or its error: raised, it would come back with the trace of another process."""
        with self._locks[kind]:
            try:
                return work(self._library)
            except AttarError as error:
                return error

    async def ping(self) -> bool:
        return True


@dataclass(frozen=True)
class _Application:
    """An application of Ray Serve: the processes that read, or also write, a shard."""

    name: str
    shard: int
    replicas: Replicas
    read_only: bool


class _Deployment:
    """What runs an application, and whether it answers: a thread looks, so that no request waits for a restart."""

    def __init__(self, application: _Application) -> None:
        from ray import serve

        self._running = threading.Event()
        self._running.set()
        self._name, self._replicas = application.name, application.replicas
        self._handle, self._closed = serve.get_app_handle(application.name), threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch {self._name}", daemon=True)
        self._thread.start()

    def call(self, work: Work[Result], kind: Kind, *, repeat: bool) -> Result:
        """The result of work; `repeat`: once more if the process dies, as it changes nothing."""
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import RayServeException

        if not self._running.is_set():
            raise ShardLostError(self._name)
        response = self._handle.call.remote(work, kind)
        while True:
            try:
                reply = response.result(timeout_s=_SLICE)
                break
            except TimeoutError:
                # Ray keeps calls of a process that died until it runs again; their clients are told to come back.
                if not self._running.is_set():
                    response.cancel()
                    raise ShardLostError(self._name) from None
            except (RayActorError, RayServeException) as error:
                if repeat and self._replicas.most > 1:
                    return self.call(work, kind, repeat=False)
                self._running.clear()
                raise ShardLostError(self._name) from error
        if isinstance(reply, AttarError):
            raise reply
        result: Result = reply
        return result

    def _watch(self) -> None:
        while not self._closed.wait(_PERIOD):
            try:
                self._handle.ping.remote().result(timeout_s=_SILENCE)
                self._running.set()
            except Exception:  # whatever Ray raises: it does not answer
                self._running.clear()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


class RayShard:
    """A shard on Ray: its readers, and its one writer."""

    def __init__(self, readers: _Deployment, writer: _Deployment) -> None:
        self.readers, self.writer = readers, writer

    def call(self, work: Work[Result], kind: Kind) -> Result:
        if kind == "write":
            return self.writer.call(work, kind, repeat=False)
        return self.readers.call(work, kind, repeat=True)

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
    applications = _applications(manifest, settings.read_only, replicas)
    processes = sum(application.replicas.most for application in applications)
    with connected(address, cpus=processes), contextlib.ExitStack() as stack:
        stack.callback(_stop, applications)
        _start(applications, manifest, settings)
        shards = []
        for _, group in groupby(applications, key=lambda application: application.shard):
            readers, *writer = (_Deployment(application) for application in group)
            shards.append(RayShard(readers, writer[0] if writer else readers))
        with ShardedLibrary(shards, at_once=True) as library:
            library.check_readers()
            yield library


def _applications(manifest: Manifest, read_only: bool, replicas: Replicas) -> list[_Application]:
    """The applications of all shards, in order: the readers of each, and after them its writer if that is another."""
    applications = []
    for number in range(len(manifest.shards)):
        name, alone = f"attar-{manifest.id[:12]}-{number}", replicas.most == 1
        applications.append(_Application(name, number, replicas, read_only or not alone))
        if not alone and not read_only:
            applications.append(_Application(f"{name}-writer", number, Replicas(), read_only=False))
    return applications


def _start(applications: Sequence[_Application], manifest: Manifest, settings: Settings) -> None:
    """Start applications, and wait until they run."""
    import logging

    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="Disabled")
    targets = []
    for application in applications:
        deployment = serve.deployment(
            name="shard",
            max_ongoing_requests=_ONGOING,
            health_check_period_s=1.0,
            health_check_timeout_s=10.0,
            graceful_shutdown_timeout_s=5.0,
            ray_actor_options={"num_cpus": 1} | _place(application.shard),
            **application.replicas.options(),
        )(ShardServer)
        bound = deployment.bind(
            str(settings.store.absolute()),
            manifest,
            application.shard,
            None if settings.reader is None else _absolute(settings.reader),
            application.read_only,
            settings.keep_text,
            settings.lists_from,
        )
        targets.append(serve.RunTarget(bound, name=application.name, route_prefix=None))
    serve.run_many(targets, wait_for_applications_running=False)
    _wait({application.name: application.shard for application in applications})


def _place(number: int) -> dict[str, Any]:
    """The resource of the machine that holds a shard's folder, if the cluster names one."""
    import ray

    name = f"attar-shard-{number}"
    known: dict[str, float] = ray.cluster_resources()
    return {"resources": {name: 0.001}} if name in known else {}


def _wait(shards: dict[str, int]) -> None:
    """Wait until applications, by name, run; one that fails is reported in one line, with the number of its shard."""
    from ray import serve

    deadline = time.monotonic() + _START
    while True:
        known = serve.status().applications
        states = {name: str(known[name].status) for name in shards if name in known}
        if all(states.get(name, "").endswith("RUNNING") for name in shards):
            return
        late = time.monotonic() > deadline
        for name, state in states.items():
            if state.endswith("DEPLOY_FAILED") or (late and not state.endswith("RUNNING")):
                messages = [deployment.message for deployment in known[name].deployments.values()]
                reason = _reason(next(filter(None, messages), known[name].message)) or state
                remedy = "see the logs of Ray, and whether the cluster has a free CPU for each process"
                raise UnavailableError(f"shard {shards[name]} does not start: {reason}", remedy)
        time.sleep(0.2)


def _reason(message: str) -> str:
    """What went wrong, of a message of Ray that holds a trace: the error of attar, or the last line.

    >>> _reason("Failed. Error:\\n  File x\\nattar.errors.StoreError: shard 1 of a: there is no store\\n\\n")
    'shard 1 of a: there is no store'
    >>> _reason("Resources: no node has 1 CPU")
    'Resources: no node has 1 CPU'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("attar.errors.") and "Error: " in line]
    if ours:
        return ours[-1].partition(": ")[2][:400]
    return lines[-1][:200] if lines else ""


def _stop(applications: Sequence[_Application]) -> None:
    from ray import serve

    for application in applications:
        with contextlib.suppress(Exception):  # a cluster that is gone has stopped them
            serve.delete(application.name, _blocking=False)


def _absolute(reader: Path) -> str:
    """A reader's folder as other processes find it, or the name of one of the package."""
    return str(reader.absolute() if reader.is_dir() else reader)
