"""Encoders for signatures: that of a reader, and published ones by their folder."""

import json

import numpy as np
import pytest
import safetensors.torch

from attar.errors import FormatError, OptionError
from attar.search.data import from_passages
from attar.search.encoders import load_encoder
from attar.search.evaluation import Evaluation
from tests.training.questions.conftest import HEADS, LAYERS, SIZE, make_tokenizer, published_weights

CONFIG = {
    "hidden_size": SIZE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
}
PASSAGES = [
    ("Ann bought a red boat in Leeds.", "a", ["What did Ann buy?"]),
    ("Bob bought two horses in York.", "b", ["Where did Bob buy two horses?"]),
]


@pytest.fixture
def published(tmp_path):
    """The folder of a tiny encoder, as BERT is published: names have a prefix."""
    (tmp_path / "tokenizer.json").write_bytes(make_tokenizer())
    vocabulary = len(json.loads(make_tokenizer())["model"]["vocab"])
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": vocabulary}))
    weights = {f"bert.{name}": value for name, value in published_weights(vocabulary).items()}
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    return tmp_path


def test_a_published_encoder_gives_states_of_its_last_layer(published):
    encoder = load_encoder(published)
    assert (encoder.size, encoder.answering) == (SIZE, None)
    texts = [PASSAGES[0][0], "", 100 * (PASSAGES[1][0] + " ")]
    (ids, states), nothing, long = encoder.encode(texts)
    assert states.shape == (len(ids), SIZE)
    assert np.isfinite(states).all()
    assert len(nothing[0]) == 0
    assert len(long[0]) == len(long[1]) > 512, "a long text is read in windows"
    assert ids.max() < encoder.pieces


def test_a_published_encoder_is_named_by_its_weights(published):
    first = load_encoder(published).fingerprint
    assert load_encoder(published).fingerprint == first
    weights = safetensors.torch.load_file(published / "model.safetensors")
    weights["bert.embeddings.LayerNorm.bias"] += 1
    safetensors.torch.save_file(weights, published / "model.safetensors")
    assert load_encoder(published).fingerprint != first


def test_a_published_encoder_is_measured_without_phrases(published):
    evaluation = Evaluation(from_passages("set", PASSAGES), load_encoder(published), sizes=(8,))
    names = [row.name for row in evaluation.run(baseline=False)]
    assert "signature, k = 8, 1-bit" in names
    assert not any("phrases" in name for name in names)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"{}"),
        ("config.json", b"[1]"),
        ("config.json", None),
        ("model.safetensors", b"garbage"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", None),
    ],
)
def test_another_folder_is_one_line(published, file, content):
    (published / file).unlink() if content is None else (published / file).write_bytes(content)
    with pytest.raises(FormatError) as caught:
        load_encoder(published)
    assert len(str(caught.value).splitlines()) == 1
    assert published.name in str(caught.value)


def test_weights_of_another_shape_are_one_line(published):
    config = json.loads((published / "config.json").read_text()) | {"hidden_size": 2 * SIZE}
    (published / "config.json").write_text(json.dumps(config))
    with pytest.raises(FormatError, match="a published BERT-like encoder"):
        load_encoder(published)


def test_a_names_reader_is_refused():
    with pytest.raises(OptionError, match="a reader of phrases"):
        load_encoder("names")
