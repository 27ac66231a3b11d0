"""How a reader computes: without gradients, and on a CPU with one thread."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def computing() -> Iterator[None]:
    """No gradients are kept, and torch has one thread for a while.

    A GRU's steps are too small to share: with two threads, which wait for each other at every step, a text was
    read at a fifth of the speed on a busy machine, and thirty-two at four fifths on an idle one.

    >>> before = torch.get_num_threads()
    >>> with computing():
    ...     torch.get_num_threads(), torch.is_inference_mode_enabled()
    (1, True)
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    if before == 1:
        with torch.inference_mode():
            yield
        return
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before)
