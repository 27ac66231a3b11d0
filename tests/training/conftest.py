"""A tiny reader with a tokenizer of its own words, and made-up passages with questions."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attar.nn.phrases import PhraseNetwork
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import PhraseOptions, TransformerShape
from attar.reader.parts import ReaderParts
from attar.reader.windows import PieceTokenizer

PEOPLE = ("Ann", "Bob", "Clara", "Dora", "Emil", "Frida", "Gus", "Hanna")
TOWNS = ("Leeds", "Dover", "Bath", "York", "Derby", "Hull")
THINGS = ("a red boat", "an old clock", "two horses", "a small farm", "the mill", "a blue door")
WORDS = ("bought", "buy", "in", "who", "where", "what", "did", "the", "of", "it", "there", ".", "?", ",")


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


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader with random weights and a second look."""
    tokenizer = make_tokenizer()
    shape = TransformerShape(len(PieceTokenizer(tokenizer)), 16, 1, 2, 32, 320)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network, look = PhraseNetwork(PhraseOptions(8, 8, encoder=shape)), SpanNetwork(Transformer(shape))
    look.encoder.words.load_state_dict(network.encoder.words.state_dict())
    folder = tmp_path_factory.mktemp("run") / "reader"
    ReaderParts.of(network, None, tokenizer).with_second_look(look).save(folder)
    return folder
