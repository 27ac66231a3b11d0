"""One run of a comparison trains, evaluates, and writes its result last."""

import json
from pathlib import Path

import pytest

from attar.errors import FormatError
from attar.reader import load_reader
from attar.training import folders
from attar.training.fit import RUN
from attar.training.folders import alone_in
from attar.training.options import TrainingOptions
from attar.training.run import OPTIONS, RESULT, main, run

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def options(data: Path, out: Path) -> TrainingOptions:
    return TrainingOptions((str(data),), str(out), size=4, embedding=4, epochs=1, batch=8, questions=2)


def test_the_result_holds_options_history_and_scores(tested_set: Path, tmp_path: Path) -> None:
    result = run(options(tested_set, tmp_path))
    assert json.loads((tmp_path / RESULT).read_text()) == json.loads(json.dumps(result))
    assert TrainingOptions.from_json(result["options"] | {"out": str(tmp_path)}) == options(
        tested_set, tmp_path
    )
    assert result["history"] == load_reader(tmp_path).about["history"]
    for split in ("validation", "test"):
        assert 0 <= result[split]["accuracy"] <= 1
    assert result["validation"]["accuracy"] == pytest.approx(result["history"][0]["validation_accuracy"])
    assert not list(tmp_path.glob(".*.partial"))


def test_a_run_that_fails_has_no_result(make_set, tmp_path: Path) -> None:
    data = make_set(training=4, validation=2)
    with pytest.raises(FormatError, match="test"):
        run(options(data, tmp_path))
    assert not (tmp_path / RESULT).exists()


def test_a_second_run_in_a_folder_is_refused_in_one_line(
    tested_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "GOING", 0.0)
    given = options(tested_set, tmp_path)
    (tmp_path / OPTIONS).write_text(json.dumps(given.to_json() | {"out": given.out}))
    with alone_in(tmp_path / RUN), pytest.raises(SystemExit) as ended:
        main(str(tmp_path / OPTIONS))
    line = str(ended.value)
    assert line.startswith("attar: ")
    assert "no run is at work in, got another run's; wait for it" in line
    assert "\n" not in line
