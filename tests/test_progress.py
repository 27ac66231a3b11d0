"""How many threads work takes, while others do the same."""

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from attar.progress import one_thread


def threads() -> int:
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.fixture
def two_threads() -> Iterator[None]:
    assert np.dot(1.0, 2.0) == 2.0  # numpy's library is loaded
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_threads")
def test_numpy_has_one_thread_until_all_have_left_who_asked_for_one() -> None:
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == 1
    second.__exit__(None, None, None)
    assert threads() == 2
