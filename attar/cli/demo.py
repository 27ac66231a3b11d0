"""`attar demo`: the claim, measured in front of the reader."""


def demo() -> None:
    """Encode a made-up document, look questions up, and time softmax against linear as it grows."""
    from attar.bench.demo import run_demo

    run_demo()
