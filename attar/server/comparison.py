"""What a lookup costs, measured: in a document's memory, and by softmax over as many states as it has tokens."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from attar.errors import OptionError
from attar.memory import Memory, look_up_hidden
from attar.wire import Comparison, Cost

# States for softmax are made for the measurement; more bytes than this are not made on request.
LARGEST = 2**29
ROUNDS = 9


def compare_costs(name: str, memory: Memory) -> Comparison:
    """Measure one query both ways, in float32, on one thread; states are random, whose values cost the same.

    >>> memory = Memory.of("linear", np.eye(2), tokens=3, reader="r")
    >>> told = compare_costs("emma", memory)
    >>> told.lookup.bytes, told.softmax.bytes
    (12, 24)
    """
    k, n = memory.size, memory.tokens
    if 4 * n * k > LARGEST:
        expected = f"a document of at most {LARGEST // (4 * k):,} tokens, for whose states there is room"
        raise OptionError(f"document {name!r}", expected, f"{n:,}")
    random = np.random.default_rng(0)
    query = random.standard_normal((1, k), np.float32)
    H = random.standard_normal((n, k), np.float32)
    # As the cache has it that questions are answered from.
    ready = memory.astype("float32")
    lookup = seconds_of(lambda: ready.lookup(query))
    softmax = seconds_of(lambda: look_up_hidden(H, query))
    return Comparison(name, n, k, Cost(lookup, ready.nbytes), Cost(softmax, H.nbytes))


def seconds_of(call: Callable[[], object]) -> float:
    """The seconds of a call, the middle of several after one that warms up."""
    call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return median(times)
