"""A library in shards on Ray Serve: one deployment per shard, and how it is called.

The server with its limits stays in the process of `attar serve`; what runs on Ray are the shards. All replicas of a
shard read and write its store, as the workers of a server without Ray do: they are on the same machine.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

from attar.cluster.connection import connected, is_gpu
from attar.cluster.sharded import Kind, LocalShard, Result, ShardedLibrary, ShardLostError, Work
from attar.cluster.shards import Manifest, check_shard, read_manifest, shard_paths
from attar.errors import AttarError, OptionError, UnavailableError
from attar.progress import StoppedError, check_stopped
from attar.server.settings import Settings, open_library

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


class ShardServer:
    """The process of a shard: opens the store, and does work for others."""

    def __init__(self, settings: Settings, manifest: Manifest, number: int) -> None:
        _listen_on_the_node_alone()
        self._library = open_library(settings, check_shard(settings.store, manifest, number))
        # Any process of the shard may get the next question to all documents: none of them loads the reader then.
        self._library.reader.prepare(texts=False)
        self._library.defer_signatures()
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


def _listen_on_the_node_alone() -> None:
    """Let the port that Ray Serve opens in this process, once the shard is made, have the node's address.

    Ray Serve takes all interfaces, and has no option for it.
    """
    from ray.serve._private import replica
    from ray.util import get_node_ip_address

    node, add_port = get_node_ip_address(), replica.add_port_to_grpc_server
    if ":" in node:
        node = f"[{node}]"
    replica.add_port_to_grpc_server = lambda server, address: add_port(server, address.replace("[::]", node))


class RayShard:
    """A shard on Ray, and whether it answers: a thread looks, so that no request waits for a restart."""

    def __init__(self, name: str, replicas: int) -> None:
        from ray import serve

        self._name, self._replicas = name, replicas
        self._handle = serve.get_app_handle(name)
        self._running, self._closed = threading.Event(), threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)
        self._thread.start()

    def call(self, work: Work[Result], kind: Kind) -> Result:
        """The result of work, by any replica; what changes nothing is done once more if that dies."""
        try:
            return self._call_once(work, kind)
        except ShardLostError:
            if kind == "write" or self._replicas == 1 or not self._running.is_set():
                raise
            return self._call_once(work, kind)

    def _call_once(self, work: Work[Result], kind: Kind) -> Result:
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
                try:
                    check_stopped()
                except StoppedError:
                    response.cancel()
                    raise
                # Ray keeps calls of a process that died until it runs again; their clients are told to come back.
                if not self._running.is_set():
                    response.cancel()
                    raise ShardLostError(self._name) from None
            except (RayActorError, RayServeException) as error:
                if self._replicas == 1:
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
    names = [f"attar-{manifest.id[:12]}-{number}" for number in range(len(manifest.shards))]
    with connected(address, cpus=replicas * len(names)), contextlib.ExitStack() as stack:
        stack.callback(_stop, names)
        _start(names, manifest, settings, replicas)
        shards = [RayShard(name, replicas) for name in names]
        with ShardedLibrary(shards, at_once=True) as library:
            library.check_readers()
            yield library


def _start(names: Sequence[str], manifest: Manifest, settings: Settings, replicas: int) -> None:
    """Start an application of Ray Serve per shard, and wait until they run; on a device each process has a GPU."""
    import logging

    import ray
    from ray import serve

    gpus, processes = ray.cluster_resources().get("GPU", 0.0), replicas * len(names)
    on_gpu = is_gpu(settings.device)
    if on_gpu and gpus < processes:
        message = f"--device {settings.device} needs a GPU for each of {processes} processes"
        raise OptionError(f"{message}, and the cluster has {gpus:g}", "leave it out, or make fewer shards")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="Disabled")
    targets = []
    for number, name in enumerate(names):
        deployment = serve.deployment(
            name="shard",
            max_ongoing_requests=_ONGOING,
            health_check_period_s=1.0,
            health_check_timeout_s=10.0,
            graceful_shutdown_timeout_s=5.0,
            ray_actor_options={"num_cpus": 1, "num_gpus": int(on_gpu)} | _place(number),
            num_replicas=replicas,
        )(ShardServer)
        bound = deployment.bind(_on_any_machine(settings), manifest, number)
        targets.append(serve.RunTarget(bound, name=name, route_prefix=None))
    serve.run_many(targets, wait_for_applications_running=False)
    _wait(names)


def _on_any_machine(settings: Settings) -> Settings:
    """Settings whose paths other processes find, without tokens; a reader may be one of the package."""
    reader = settings.reader
    if reader is not None and reader.is_dir():
        reader = reader.absolute()
    return replace(
        settings, store=settings.store.absolute(), reader=reader, token=None, read_tokens=frozenset()
    )


def _place(number: int) -> dict[str, Any]:
    """The resource of the machine that holds a shard's folder, if the cluster names one."""
    import ray

    name = f"attar-shard-{number}"
    known: dict[str, float] = ray.cluster_resources()
    return {"resources": {name: 0.001}} if name in known else {}


def _wait(names: Sequence[str]) -> None:
    """Wait until the applications of all shards run; one that fails is reported in one line, with its shard."""
    from ray import serve

    deadline = time.monotonic() + _START
    while True:
        known = serve.status().applications
        states = [str(known[name].status) if name in known else "" for name in names]
        if all(state.endswith("RUNNING") for state in states):
            return
        late = time.monotonic() > deadline
        for number, state in enumerate(states):
            if state.endswith("DEPLOY_FAILED") or (late and not state.endswith("RUNNING")):
                application = known[names[number]]
                messages = [deployment.message for deployment in application.deployments.values()]
                reason = _reason(next(filter(None, messages), application.message)) or state
                remedy = (
                    "see the logs of Ray, and whether the cluster has a free CPU, or GPU, for each process"
                )
                raise UnavailableError(f"shard {number} does not start: {reason}", remedy)
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


def _stop(names: Sequence[str]) -> None:
    from ray import serve

    for name in names:
        with contextlib.suppress(Exception):  # a cluster that is gone has stopped them
            serve.delete(name, _blocking=False)
