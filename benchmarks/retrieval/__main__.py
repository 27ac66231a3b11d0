"""Measure ways to rank documents: nDCG@10 and recall with 95 % intervals, bytes, and time.

python -m benchmarks.retrieval squad2-dev.json.xz
python -m benchmarks.retrieval cranfield --reader all-MiniLM-L6-v2
"""

from pathlib import Path
from typing import Annotated

import typer

from attar.cli.output import columns, progress_bar
from attar.search.statistics import default_statistics
from benchmarks.command import run_command
from benchmarks.retrieval.encoders import load_encoder
from benchmarks.retrieval.evaluation import Evaluation, evaluation_table
from benchmarks.retrieval.sets import read_set


def main(
    data: Annotated[Path, typer.Argument(metavar="SET", help="A BEIR-style folder, or SQuAD's JSON.")],
    reader: Annotated[Path | None, typer.Option(help="A reader, or a published BERT-like encoder.")] = None,
    queries: Annotated[int, typer.Option(min=0, help="Queries, drawn at random; 0: all.")] = 500,
    articles: Annotated[bool, typer.Option("--articles", help="One document per article of SQuAD.")] = False,
) -> None:
    """Measure ways to rank documents."""
    chosen = read_set(data)
    chosen = (chosen.by_article() if articles else chosen).sample(queries)
    encoder = load_encoder(reader)
    statistics = default_statistics(encoder.fingerprint, reader)
    with progress_bar() as progress:
        rows = [*Evaluation(chosen, encoder, statistics, progress=progress).run()]
    fitted = "the set's own" if statistics is None else f"{statistics.documents:,} other"
    sizes_of = f"{len(chosen.documents):,} documents, {len(chosen.queries):,} queries"
    print(f"{data.name}: {sizes_of}; statistics of {fitted} documents")
    print(columns(evaluation_table(rows)))


if __name__ == "__main__":
    run_command(main)
