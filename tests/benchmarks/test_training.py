"""The training benchmark at a tiny size."""

from benchmarks import training


def test_every_mechanism_is_profiled_on_stories(unchecked_shapes):
    profiles = training.run(quick=True, mechanisms=["gated", "softmax"])
    assert list(profiles) == ["gated", "softmax"]
    assert all(profile["ms per step"] > 0 for profile in profiles.values())
