"""Translation with one constant-time lookup per word: the decoder sees the source through one memory only.

For each word the decoder makes one lookup; softmax would read all states of the source. Languages: toy_languages.py.
"""

from random import Random
from timeit import repeat

import torch
import typer
from rich.console import Console
from rich.progress import track
from tables import print_table
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from toy_languages import SOURCE, TARGET, sentences

from attar.nn import Memories, attention

SIZE = 64  # k


class Translator(nn.Module):
    """A bidirectional GRU, a mechanism, and a GRU decoder that makes one lookup per word."""

    def __init__(self, mechanism: str, size: int = SIZE) -> None:
        super().__init__()
        self.source_words, self.target_words = (nn.Embedding(len(words), size) for words in (SOURCE, TARGET))
        self.encoder = nn.GRU(size, size // 2, batch_first=True, bidirectional=True)
        options = {} if mechanism in ("none", "softmax") else {"scale": "sqrt"}
        self.attention = attention(mechanism, size, **options)
        self.decoder = nn.GRU(size, size, batch_first=True)
        self.query, self.head = nn.Linear(size, size), nn.Linear(2 * size, len(TARGET))

    def encode(self, source: Tensor, lengths: Tensor) -> Memories:
        """The memory of each source."""
        words = pack_padded_sequence(self.source_words(source), lengths, True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.encoder(words)[0], True)
        return self.attention.encode(states, lengths)

    def decode(self, memories: Memories, words: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Scores of the word after each of `words` `[B, m]`, with one lookup each, and the decoder's state."""
        states, state = self.decoder(self.target_words(words), state)
        readouts = self.attention.lookup(memories, self.query(states))
        return self.head(torch.cat([states, readouts], -1)), state


def train(translator: Translator, steps: int) -> None:
    """Train on new sentences at each step, on all words of a translation at once (teacher forcing)."""
    optimizer, rng = torch.optim.AdamW(translator.parameters()), Random(0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, steps)
    for _ in track(range(steps), "training", console=Console(stderr=True), transient=True):
        source, lengths, target = sentences(rng, 64)
        before = nn.functional.pad(target[:, :-1].clamp(min=0), (1, 0))
        scores, _ = translator.decode(translator.encode(source, lengths), before)
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores.mT, target, ignore_index=-1).backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def translate(translator: Translator, source: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """The most probable words `[B, longest]`, each from the words before it and one lookup."""
    memories, words, state = translator.encode(source, lengths), source.new_zeros(len(source), 1), None
    for _ in range(longest):
        scores, state = translator.decode(memories, words[:, -1:], state)
        words = torch.cat([words, scores.argmax(-1)], 1)
    return words[:, 1:]


@torch.no_grad()
def seconds_per_word(translator: Translator, n: int) -> float:
    """The best time per word for a source of n words, whose states are random here."""
    memories, word = translator.attention.encode(torch.randn(1, n, SIZE)), torch.zeros(1, 1).long()
    return min(repeat(lambda: translator.decode(memories, word), number=10, repeat=20)) / 10


def main(mechanism: str = "gated", steps: int = 300, lengths: str = "10,100,1000,10000,100000") -> None:
    """Train a translator between made-up languages, test it, and time a word as the source grows."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # faster for products this small
    translator, softmax = Translator(mechanism), Translator("softmax")
    train(translator, steps)
    source, ends, target = sentences(Random("new"), 500)
    words = translate(translator, source, ends, target.shape[1])
    right = ((words == target) | (target < 0)).all(1).float().mean()
    print(f"{mechanism}, {steps} steps: {right:.1%} of 500 new sentences without a mistake. The first:")
    print(*(SOURCE[word] for word in source[0, : ends[0]]))
    print(" ".join(TARGET[word] for word in words[0]).partition("  ")[0], end="\n\n")
    rows = []
    for n in map(int, lengths.split(",")):
        ours, theirs = seconds_per_word(translator, n), seconds_per_word(softmax, n)
        rows.append([f"{n:,}", f"{1e6 * ours:,.1f} µs", f"{1e6 * theirs:,.1f} µs", f"{theirs / ours:.1f} ×"])
    print_table(["source words", f"time per word, {mechanism}", "softmax", "ratio"], rows)


if __name__ == "__main__":
    typer.run(main)
