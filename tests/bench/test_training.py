"""A profile says where a step's time goes, for every mechanism, and writes nothing."""

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
def test_a_steps_time_is_told_in_shares(stories_set: Path, tmp_path: Path, mechanism: str) -> None:
    options = TrainingOptions(
        (str(stories_set),), str(tmp_path / "out"), mechanism=mechanism, size=4, embedding=4, batch=8
    )
    told = profile_step(options)
    assert told["documents a step"] == 8
    assert told["tokens a document"] > 10
    assert told["documents a second, loading included"] > 0
    waited = 1 - told["ms a step, batches ready beforehand"] / told["ms a step"]
    assert told["share of time waiting for batches"] == pytest.approx(max(0, waited), abs=0.02)
    assert told["ms of attention, forward and backward"] > 0
    assert not (tmp_path / "out").exists()


def test_a_set_of_one_batch_is_enough(stories_set: Path, tmp_path: Path) -> None:
    options = TrainingOptions((str(stories_set),), str(tmp_path), size=4, embedding=4, batch=64)
    assert profile_step(options)["ms a step"] > 0
