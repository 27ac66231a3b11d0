"""Write questions for texts that have none: choose spans, write a question for each, keep what the teacher answers.

    python -m benchmarks.generate_questions wiki.jsonl --data squad-train-part.jsonl.xz --base all-MiniLM-L6-v2 \\
        --teacher reader/run --out generated

`--teacher` is the run of a reader on the same data. `generated/questions.jsonl` is for `attar train-questions`, whose
own teacher labels the questions again. The stages are files of `generated/run`; those that are there are not repeated.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.utils.data import Dataset

from attar.documents.workers import read_sources
from attar.nn.phrases import PhraseNetwork, valid_spans
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import LONGEST, PhraseOptions
from attar.progress import ignore_progress
from attar.text.pieces import PieceTokenizer
from attar.training.base import load_base
from attar.training.batches import SEP, Batch, QuestionBatches, text_batch
from attar.training.data import Passage, PassageQuestion, read_passages
from attar.training.held_out import keep_best
from attar.training.labels import Golds, with_golds
from attar.training.losses import Loss, gold_scores
from attar.training.options import QuestionOptions
from attar.training.question_set import QuestionSet, token_spans
from attar.training.run import QuestionRun
from attar.training.stage import load_weights
from attar.training.teacher import PairBatches, label
from benchmarks.command import run_command
from benchmarks.question_generator import Generator, Marked, MarkedBatches

# The characters of a paragraph that questions are generated for.
_PARAGRAPH = range(200, 2_000)
# Spans asked about in a paragraph,
SPANS = 8
# drawn from this many candidates per piece.
CANDIDATES = 0.2
# Paragraphs per batch while spans are drawn.
_PARAGRAPHS = 128
# The least probability that the teacher gives to its span,
_SURE = 0.2
# and how much that span must have in common with the one asked about.
_COMMON = 0.6
# Epochs and learning rates that were measured once.
_PRIOR_EPOCHS, _PRIOR_LR = 2, 1e-4
_GENERATOR_EPOCHS, _GENERATOR_LR = 4, 1.5e-4
Loader = Callable[[Dataset[Batch]], Iterable[Batch]]


def read_paragraphs(path: Path) -> list[Passage]:
    """The paragraphs of texts without questions, blank lines between them."""
    return [
        Passage(text, f"{document.name}/{text[:40]}")
        for document in read_sources([path])
        for text in document.text.split("\n\n")
        if len(text) in _PARAGRAPH
    ]


def prior_loss(network: PhraseNetwork, batch: Batch) -> Loss:
    """The loss of the priors alone: which spans are worth asking about."""
    texts = network.encode_texts(batch["ids"], batch["mask"])
    prior = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
    asked, usable = gold_scores(prior[batch["owners"]], batch["spans"])
    total = prior.flatten(1).logsumexp(1)[batch["owners"]]
    return torch.where(usable, total - asked, 0.0).sum() / usable.sum().clamp(min=1), {}


def with_marked_golds(paragraphs: QuestionSet) -> QuestionSet:
    """The set with each marked span as the answer to some question: what was marked was asked about."""
    golds: Golds = {}
    for at, passage in enumerate(paragraphs.passages):
        if passage.spans:
            spans = token_spans(paragraphs.texts[at], passage.spans)
            for place, q in enumerate(paragraphs.of_passage[at]):
                golds[q] = spans[place : place + 1]
    return with_golds(paragraphs, golds)


def marked_questions(paragraphs: QuestionSet, chosen: Iterable[int]) -> list[Marked]:
    """Questions to learn from: with an answer that is not too long, and more than one word."""
    items = []
    for q in chosen:
        first, last = paragraphs.golds[q][0]
        if last - first < 16 and len(paragraphs.questions[q]) > 4:
            items.append(Marked(paragraphs.owners[q], int(first), int(last), paragraphs.questions[q]))
    return items


@torch.no_grad()
def draw_spans(
    prior: PhraseNetwork, paragraphs: QuestionSet, device: torch.device, seed: int
) -> list[Marked]:
    """Spans worth asking about, drawn by their prior (Gumbel noise), at most `SPANS` per paragraph."""
    prior.eval()
    random = torch.Generator(device=device).manual_seed(seed)
    order = np.argsort([len(text) for text in paragraphs.texts])
    items = []
    for start in range(0, len(order), _PARAGRAPHS):
        chunk = order[start : start + _PARAGRAPHS].tolist()
        batch = {name: value.to(device) for name, value in text_batch(paragraphs, chunk).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            texts = prior.encode_texts(batch["ids"], batch["mask"])
            scores = prior.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
        kept = keep_best(scores, batch["inside"], CANDIDATES)
        flat = scores.masked_fill(~kept, float("-inf")).flatten(1) / 2.0
        uniform = torch.rand(flat.shape, generator=random, device=device).clamp(1e-9, 1 - 1e-7)
        best = (flat - torch.log(-torch.log(uniform))).topk(SPANS, 1)
        for at, places, values in zip(chunk, best.indices.tolist(), best.values.tolist(), strict=True):
            for place, value in zip(places, values, strict=True):
                if value > -1e30:
                    first = place // LONGEST - 1
                    items.append(Marked(at, first, first + place % LONGEST, None))
    return items


def write_questions(
    generator: Generator,
    paragraphs: QuestionSet,
    items: Sequence[Marked],
    loader: Loader,
    device: torch.device,
    tokens: int,
) -> QuestionSet:
    """The paragraphs with a question for each span; questions that do not end are left out."""
    data = MarkedBatches([text.ids for text in paragraphs.texts], items, tokens=tokens, epochs=1, seed=4)
    written: dict[int, NDArray[np.int32]] = {}
    for batch in loader(data):
        batch = {name: value.to(device) for name, value in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            rows = generator.generate(batch).cpu().numpy()
        for item, row in zip(batch["items"].tolist(), rows, strict=True):
            ends = np.flatnonzero(row == SEP)
            if len(ends) and 4 < ends[0] < 40:
                written[item] = row[: ends[0] + 1].astype(np.int32)
    asked = QuestionSet(paragraphs.passages, paragraphs.texts, of_passage=[[] for _ in paragraphs.passages])
    for number, ids in sorted(written.items()):
        item = items[number]
        asked.add_question(item.text, ids, np.array([[item.first, item.last]], np.int32), PassageQuestion(""))
    return asked


def keep_answered(
    teacher: SpanNetwork, asked: QuestionSet, loader: Loader, device: torch.device, tokens: int
) -> list[int]:
    """The questions whose span the teacher finds again."""
    every = range(len(asked.questions))
    pairs = PairBatches(asked, every, tokens=tokens, epochs=1, seed=0, shuffle=False)
    labels = label(teacher, asked, loader(pairs), device)
    answered = []
    for q in every:
        (first, last), a, b = asked.golds[q][0], labels.first[q], labels.last[q]
        common = min(last, b) - max(first, a) + 1
        share = 2 * common / (last - first + b - a + 2)
        if labels.probability[q] > _SURE and common > 0 and share > _COMMON:
            answered.append(q)
    return answered


def write_file(path: Path, asked: QuestionSet, answered: Sequence[int], tokenizer: bytes) -> None:
    """Write paragraphs with their questions and spans, as `attar train-questions` reads them."""
    text_of, chosen = Tokenizer.from_str(tokenizer.decode()), set(answered)
    with path.open("w", encoding="utf-8") as file:
        for at, passage in enumerate(asked.passages):
            questions = [q for q in asked.of_passage[at] if q in chosen]
            if questions:
                text, spans = asked.texts[at], [asked.golds[q][0] for q in questions]
                row = {
                    "title": passage.article,
                    "context": passage.text,
                    "questions": [text_of.decode(asked.questions[q].tolist()) for q in questions],
                    "spans": [
                        {"start": int(text.starts[first]), "end": int(text.ends[last])}
                        for first, last in spans
                    ],
                }
                file.write(json.dumps(row) + "\n")


def generate(run: QuestionRun, texts: Path, teacher_run: Path) -> int:
    """Train the prior and the generator, write questions, and return how many are kept."""
    options, tokens = run.options, run.options.part_tokens * 4 // 3
    base = load_base(options.base)
    tokenizer = PieceTokenizer(base.tokenizer)
    passages = [passage for path in options.data for passage in read_passages(path)]
    training = QuestionSet.of(passages, tokenizer)

    def make_prior() -> PhraseNetwork:
        network = PhraseNetwork(PhraseOptions(match="none", encoder=base.shape))
        network.encoder.load_state_dict(base.weights)
        return network

    prior = run.module(make_prior)
    asked = partial(
        QuestionBatches, with_marked_golds(training), tokens=tokens, epochs=_PRIOR_EPOCHS, seed=5, per_passage=12,
        negatives=1,
    )  # fmt: skip
    run.fit("prior", prior, lambda batch: prior_loss(prior, batch), asked, lr=_PRIOR_LR)

    def make_generator() -> Generator:
        generator = Generator(base.shape)
        generator.encoder.load_state_dict(base.weights)
        return generator

    generator = run.module(make_generator)
    items = marked_questions(training, training.labelled())
    marked = partial(
        MarkedBatches, [text.ids for text in training.texts], items, tokens=tokens, epochs=_GENERATOR_EPOCHS, seed=3
    )  # fmt: skip
    run.fit(
        "generator", generator, lambda batch: (generator.loss(batch), {}), marked, lr=_GENERATOR_LR, heads=4.0
    )
    torch.manual_seed(options.seed)
    paragraphs = QuestionSet.of(read_paragraphs(texts), tokenizer)
    spans = draw_spans(prior, paragraphs, run.device, 0)
    written = write_questions(generator, paragraphs, spans, run.loader, run.device, options.batch_tokens * 16)
    teacher = SpanNetwork(Transformer(base.shape))
    load_weights(teacher_run / "teacher.safetensors", teacher)
    answered = keep_answered(
        teacher.to(run.device), written, run.loader, run.device, options.batch_tokens * 5
    )
    write_file(options.folder / "questions.jsonl", written, answered, base.tokenizer)
    return len(answered)


def main(
    texts: Annotated[Path, typer.Argument(help="Texts without questions.")],
    data: Annotated[list[Path], typer.Option(help="Files of questions to learn from.")],
    base: Annotated[str, typer.Option(help="Published encoder to start from.")],
    teacher: Annotated[Path, typer.Option(help="Folder of a run whose teacher is done.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write questions for texts that have none."""
    run = QuestionRun(QuestionOptions(tuple(map(str, data)), str(out), base=base), ignore_progress, print)
    run.folder.mkdir(parents=True, exist_ok=True)
    run.begin(resume=(run.folder / "run.json").is_file(), replace=False)
    print(f"{generate(run, texts, teacher):,} questions")


if __name__ == "__main__":
    run_command(main)
