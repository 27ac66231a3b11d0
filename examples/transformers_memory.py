"""A model of Hugging Face transformers that attends to stored memories of documents: encode once, many prompts.

A document is a list of pairs of a key and a value; a prompt is a key, and the model goes on with its value. Its
self-attention has a memory too, so that the cache of a prompt has a fixed size, and rolling it back is a subtraction:
generation with guessed tokens (`prompt_lookup_num_tokens`) does that. Needs transformers 5; nothing is downloaded.
"""

import tempfile
from pathlib import Path

import torch
import typer
from memory_model import MemoryConfig, MemoryForCausalLM
from rich.console import Console
from rich.progress import track
from torch import Tensor

from attar.nn import Memories

KEYS, PAIRS = 32, 8  # tokens 0 to 31 are keys, 32 to 63 values


def documents(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Documents `[B, 2 pairs]`, their keys and their values."""
    keys = torch.rand(count, KEYS).argsort(1)[:, :PAIRS]
    values = torch.randint(KEYS, 2 * KEYS, (count, PAIRS))
    return torch.stack([keys, values], 2).flatten(1), keys, values


def train(model: MemoryForCausalLM, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in track(range(steps), "training", console=Console(stderr=True), transient=True):
        texts, keys, values = documents(32)
        memories = [each.repeat_interleave(PAIRS) for each in model.read(texts)]
        loss = model(keys.flatten()[:, None], memories, labels=values.flatten()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def main(steps: int = 300) -> None:
    """Train a tiny model, store the memories of documents, and ask them with many prompts."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MemoryForCausalLM(MemoryConfig())
    with torch.enable_grad():
        train(model, steps)
    model.eval()
    texts, keys, values = documents(100)
    with tempfile.TemporaryDirectory() as folder:  # the model, and what it has read, as files
        model.save_pretrained(folder)
        model = MemoryForCausalLM.from_pretrained(folder)
        model.read(texts)[0].save(Path(folder) / "memories", names=[f"document {i}" for i in range(100)])
        stored = Memories.load(Path(folder) / "memories")
    answers = [
        model.generate(keys[:, [i]], memories=[stored], past_key_values=model.new_cache(), max_new_tokens=1)
        for i in range(PAIRS)
    ]
    right = (torch.cat([answer[:, 1:] for answer in answers], 1) == values).float().mean()
    print(f"{len(stored)} documents, read once, {stored.nbytes // len(stored):,} bytes each")
    print(f"{PAIRS} prompts to each: {right:.0%} of the values are right")

    # Longer answers, with and without guessed tokens that are taken back where the model does not agree.
    options = {"memories": [stored["document 7"]], "max_new_tokens": 20, "do_sample": False}
    prompt = keys[7:8].repeat(1, 2)
    plain = model.generate(prompt, past_key_values=model.new_cache(), **options)
    guessed = model.generate(prompt, past_key_values=model.new_cache(), prompt_lookup_num_tokens=3, **options)
    print(
        f"generation with guesses that are subtracted again gives the same tokens: {torch.equal(plain, guessed)}"
    )


if __name__ == "__main__":
    typer.run(main)
