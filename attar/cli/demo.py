"""`attar demo`: the claim, measured in front of the reader."""


def demo() -> None:
    """Read two tales, ask, append, merge, remove; then time softmax against a memory as documents grow."""
    from attar.bench import run_demo

    run_demo()
