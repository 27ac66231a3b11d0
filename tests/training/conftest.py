"""A tiny encoder with a tokenizer of its own words, and made-up passages with questions."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attar.options import TransformerShape
from attar.reader.windows import PieceTokenizer
from attar.training.data import QuestionOptions
from tests.nn.test_transformer import published

PEOPLE = ("Ann", "Bob", "Clara", "Dora", "Emil", "Frida", "Gus", "Hanna")
TOWNS = ("Leeds", "Dover", "Bath", "York", "Derby", "Hull")
THINGS = ("a red boat", "an old clock", "two horses", "a small farm", "the mill", "a blue door")
WORDS = ("bought", "buy", "in", "who", "where", "what", "did", "the", "of", "it", "there", ".", "?", ",")
SIZE, LAYERS, HEADS = 16, 1, 2

# BERT's name of a part → MPNet's.
MPNET_NAMES = {f"attention.self.{name}": f"attention.attn.{name[0]}" for name in ("query", "key", "value")}
MPNET_NAMES |= {
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}

# Of a tiny run.
SIZES: dict[str, Any] = {"look_epochs": 1, "epochs": 2, "batch_tokens": 600, "lr": 1e-3}
MakeOptions = Callable[..., QuestionOptions]


def make_tokenizer() -> bytes:
    """WordPiece with BERT's numbers for special pieces, and letters for unknown words."""
    pieces = ["[PAD]", *(f"[unused{at}]" for at in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    known = {word.lower() for phrase in (*PEOPLE, *TOWNS, *THINGS) for word in phrase.split()} | set(WORDS)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789'-"
    pieces += sorted(known) + [f"##{letter}" for letter in letters]
    pieces += [letter for letter in letters if letter not in known]
    tokenizer = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    return tokenizer.to_str().encode()


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


def made_up(seed: int, count: int) -> list[dict[str, Any]]:
    """Passages of a few sentences, each with a question per sentence, as rows of a `.jsonl` file."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        text, questions = "", []
        for person in draw.sample(PEOPLE, 3):
            town, thing = draw.choice(TOWNS), draw.choice(THINGS)
            sentence = f"{person} bought {thing} in {town} . "
            start = len(text) + sentence.index(thing)
            questions.append(
                {"question": f"What did {person} buy?", "answers": [{"text": thing, "start": start}]}
            )
            text += sentence
        title = f"article {seed} {number // 2}"
        rows.append({"title": title, "context": text.strip(), "questions": questions})
    return rows


def unlabelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, with spans of which nobody knows what question they answer."""
    found = []
    for number, row in enumerate(rows):
        answers = [question["answers"][0] for question in row["questions"]]
        spans = [{"start": a["start"], "end": a["start"] + len(a["text"]), "colour": "red"} for a in answers]
        asked = [question["question"] for question in row["questions"]]
        found.append({"document": number // 2, "context": row["context"], "questions": asked, "spans": spans})
    return found


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer() -> PieceTokenizer:
    return PieceTokenizer(make_tokenizer())


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, tokenizer: PieceTokenizer) -> Path:
    """The folder of a tiny published encoder."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "tokenizer.json").write_bytes(tokenizer.data)
    config = {"vocab_size": len(tokenizer), "hidden_size": SIZE, "num_hidden_layers": LAYERS}
    config |= {"num_attention_heads": HEADS, "intermediate_size": 32, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(published_weights(len(tokenizer)), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def mpnet(tmp_path_factory: pytest.TempPathFactory, base: Path, tokenizer: PieceTokenizer) -> Path:
    """The folder of a tiny MPNet: the encoder of `base` under MPNet's names, with its special pieces."""
    folder = tmp_path_factory.mktemp("mpnet")
    text = tokenizer.data.decode()
    for ours, theirs in (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[PAD]", "<pad>"), ("[MASK]", "<mask>")):
        text = text.replace(ours, theirs)
    (folder / "tokenizer.json").write_text(text)
    (folder / "config.json").write_bytes((base / "config.json").read_bytes())
    weights = {}
    for name, value in published_weights(len(tokenizer)).items():
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


@pytest.fixture
def options(data: tuple[Path, Path], base: Path, tmp_path: Path) -> MakeOptions:
    """Options of a tiny run in the test's folder."""

    def make(out: str = "reader", **changed: Any) -> QuestionOptions:
        given = {"data": data, "out": str(tmp_path / out), "base": str(base)} | SIZES | changed
        return QuestionOptions(**given)

    return make
