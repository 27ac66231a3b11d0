"""`attar evaluate`: how well a reader answers a cloze set's questions."""

import json
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli.train import AsJson, SkipMalformed

if TYPE_CHECKING:
    from attar.training import Score


def evaluate(
    data: Annotated[list[Path], typer.Option("--data", "-d", help="A cloze set, or several.")],
    reader: Annotated[
        Path | None, typer.Option(help="A reader's folder; the one in the package otherwise.")
    ] = None,
    split: Annotated[str, typer.Option(help="validation or test.")] = "test",
    batch: Annotated[int, typer.Option(min=1, help="Documents at a time.")] = 64,
    by_mentions: Annotated[
        bool, typer.Option("--by-mentions", help="Also by how often the answer is mentioned.")
    ] = False,
    skip_malformed: SkipMalformed = False,
    as_json: AsJson = False,
) -> None:
    """Accuracy with a 95 % interval, by source, beside counting names; a memory's bytes.

    attar evaluate --data novels --reader reader
    """
    import torch

    from attar.cli.cloze import progress_bar
    from attar.cloze import ClozeSet
    from attar.reader import Reader, answers_alone
    from attar.training import evaluate, leave_out, measure_memories, open_splits, sample_by_source

    saved = Reader.load(reader)
    with progress_bar() as progress:
        skip = leave_out if skip_malformed else None
        documents = open_splits(data, split, saved.vocabulary, progress, skip)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        found = evaluate(
            saved.network, saved.vocabulary, documents, batch=batch, device=device, progress=progress
        )
        texts = chain.from_iterable(ClozeSet.open(path).documents(split, on_malformed=skip) for path in data)
        sample = sample_by_source(texts) if answers_alone(saved.network) else {}
        memories = measure_memories(saved, sample, progress)
    if as_json:
        sizes = {"memories": {source: asdict(size) for source, size in memories.items()}}
        print(json.dumps({"split": split, "reader": saved.fingerprint} | found.to_json() | sizes))
        return

    def line(what: str, score: "Score") -> str:
        return f"{what:<42} {score.accuracy:.3f}  [{score.low:.3f}, {score.high:.3f}]"

    print(
        f"{split}: {found.whole.questions:,} questions on {found.whole.documents:,} documents, 95 % intervals"
    )
    print(line("reader", found.whole))
    for name, baseline in found.baselines.items():
        print(line(name, baseline))
    if len(found.sources) > 1:
        for source, score in found.sources.items():
            print(line(f"{source}: reader", score))
            for name, scores in found.source_baselines.items():
                print(line(f"{source}: {name}", scores[source]))
    if by_mentions:
        for source, mentions in found.mentions.items():
            for name, score in mentions.items():
                share = score.questions / found.sources[source].questions
                print(f"{line(f'{source}: mentioned {name}', score)}  of {share:.0%}")
    for source, size in memories.items():
        taken = ", ".join(f"{count:,.0f} bytes in {precision}" for precision, count in size.bytes.items())
        of = f"{size.tokens:,.0f} tokens, {size.names:,.0f} names"
        what = f"{source}: a memory" if len(memories) > 1 else "a memory"
        print(f"{what + ', on average':<42} {taken} ({of})")
