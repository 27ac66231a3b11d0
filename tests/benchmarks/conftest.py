"""Tiny encoders as they are published, and questions to train a new reader with."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from attar.options import TransformerShape
from attar.reader.windows import PieceTokenizer
from tests.nn.test_transformer import published
from tests.training.conftest import made_up, make_tokenizer, write_lines

SIZE, LAYERS, HEADS = 16, 1, 2

# BERT's name of a part → MPNet's.
MPNET_NAMES = {f"attention.self.{name}": f"attention.attn.{name[0]}" for name in ("query", "key", "value")}
MPNET_NAMES |= {
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}


def published_weights(vocabulary: int) -> dict[str, torch.Tensor]:
    """Random weights under the names that encoders are published with."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = published(TransformerShape(vocabulary, SIZE, LAYERS, HEADS, 32, 512))
    for name, weight in weights.items():
        if name.endswith("bias"):
            weight.zero_()
        elif "LayerNorm" in name:
            weight.fill_(1.0)
        else:
            weight.mul_(0.1)
    return weights


def unlabelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, with spans of which nobody knows what question they answer."""
    found = []
    for number, row in enumerate(rows):
        answers = [question["answers"][0] for question in row["questions"]]
        spans = [{"start": a["start"], "end": a["start"] + len(a["text"]), "colour": "red"} for a in answers]
        asked = [question["question"] for question in row["questions"]]
        found.append({"document": number // 2, "context": row["context"], "questions": asked, "spans": spans})
    return found


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny published encoder."""
    tokenizer = PieceTokenizer(make_tokenizer())
    folder = tmp_path_factory.mktemp("base")
    (folder / "tokenizer.json").write_bytes(tokenizer.data)
    config = {"vocab_size": len(tokenizer), "hidden_size": SIZE, "num_hidden_layers": LAYERS}
    config |= {"num_attention_heads": HEADS, "intermediate_size": 32, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(published_weights(len(tokenizer)), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def mpnet(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """The folder of a tiny MPNet: the encoder of `base` under MPNet's names, with its special pieces."""
    folder = tmp_path_factory.mktemp("mpnet")
    text = (base / "tokenizer.json").read_text()
    for ours, theirs in (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[PAD]", "<pad>"), ("[MASK]", "<mask>")):
        text = text.replace(ours, theirs)
    (folder / "tokenizer.json").write_text(text)
    (folder / "config.json").write_bytes((base / "config.json").read_bytes())
    weights = {}
    for name, value in published_weights(len(PieceTokenizer(make_tokenizer()))).items():
        for ours, theirs in MPNET_NAMES.items():
            name = name.replace(ours, theirs)
        weights[name] = value
    weights["encoder.relative_attention_bias.weight"] = torch.zeros(32, HEADS)
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files with labelled and with unlabelled questions."""
    folder = tmp_path_factory.mktemp("data")
    labelled = write_lines(folder / "labelled.jsonl", made_up(1, 16))
    return labelled, write_lines(folder / "marked.jsonl", unlabelled(made_up(2, 8)))
