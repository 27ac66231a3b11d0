"""The profile of a training step, for every mechanism; it writes nothing."""

from pathlib import Path

import pytest

from attar.bench.training import profile_step
from attar.cloze.build import BuildOptions, build_set
from attar.training.options import TrainingOptions
from benchmarks.stories import tell_stories

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(scope="module")
def stories_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    texts = folder / "stories.txt"
    texts.write_text("\n\n".join(story.text for story in tell_stories(1, 60)))
    build_set([texts], folder / "set", BuildOptions(window=100, size=200, only="training"))
    return folder / "set"


@pytest.mark.parametrize("mechanism", ["gated", "keyed", "named", "softmax"])
def test_a_profile_reports_rates_and_shares(stories_set: Path, tmp_path: Path, mechanism: str) -> None:
    options = TrainingOptions(
        (str(stories_set),), str(tmp_path / "out"), mechanism=mechanism, size=4, embedding=4, batch=8
    )
    profile = profile_step(options)
    assert profile["documents per step"] == 8
    assert profile["tokens per document"] > 10
    assert profile["documents per second, loading included"] > 0
    waited = 1 - profile["ms per step, batches ready beforehand"] / profile["ms per step"]
    assert profile["share of time waiting for batches"] == pytest.approx(max(0, waited), abs=0.02)
    assert profile["ms of attention, forward and backward"] > 0
    assert not (tmp_path / "out").exists()


def test_a_set_of_one_batch_is_enough(stories_set: Path, tmp_path: Path) -> None:
    options = TrainingOptions((str(stories_set),), str(tmp_path), size=4, embedding=4, batch=64)
    assert profile_step(options)["ms per step"] > 0
