"""`attar demo`: everything on a small example, in under a minute."""


def demo() -> None:
    """Read two tales, ask, append, merge and remove; then compare the cost of softmax and of a memory."""
    from attar.bench import run_demo

    run_demo()
