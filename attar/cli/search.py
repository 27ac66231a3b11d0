"""`attar search`, `attar search-eval` and `attar store refit`: ranking documents."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import columns, print_json, printable, progress_bar, shown
from attar.errors import OptionError

if TYPE_CHECKING:
    from attar.search.data import RetrievalSet

_Set = Annotated[
    Path,
    typer.Argument(metavar="SET", help="A BEIR-style folder, or questions in SQuAD's JSON (.json, .xz)."),
]
_Encoder = Annotated[
    Path | None, typer.Option("--reader", help="A reader's folder, or that of a published BERT-like encoder.")
]


def search(
    store: options.StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or some words.")],
    top: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 10,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the documents that fit a query best, each with its best sentences.

    attar search stories "who married Elizabeth?"
    """
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        with progress_bar() as progress:
            library.make_signatures(progress=progress)
        hits = library.search(query, top=top)
        print_search_state(library.search_state.lines())
    if as_json:
        print_json({"query": query, "hits": hits})
        return
    for hit in hits:
        print(f"{shown(hit.document)}  {hit.score:.1f}")
        for sentence in hit.sentences:
            place = f" ({shown(sentence.place)})" if sentence.place else ""
            print(f"  {printable(' '.join(sentence.text.split()))}{place}")
    if not hits:
        print("no documents")


def print_search_state(lines: list[str]) -> None:
    """Print what a person should know about a search, to stderr."""
    for line in lines:
        print(f"attar: {printable(line)}", file=sys.stderr)


def search_eval(
    data: _Set,
    reader: _Encoder = None,
    queries: Annotated[int, typer.Option(min=0, help="Queries, drawn at random; 0: all.")] = 500,
    sizes: Annotated[str, typer.Option(help="Sizes k of signatures, with commas.")] = "64,128",
    articles: Annotated[
        bool, typer.Option("--articles", help="One document per article of SQuAD's JSON, not per paragraph.")
    ] = False,
    own_statistics: Annotated[
        bool, typer.Option("--own-statistics", help="Fit statistics to the set; do not use the reader's.")
    ] = False,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Also bm25s, MaxSim and MUVERA.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Measure ways to rank documents: nDCG@10 and recall with 95 % intervals, bytes, and time.

    attar search-eval squad2-dev.json.xz

    attar search-eval cranfield --reader all-MiniLM-L6-v2
    """
    from attar.search.encoders import load_encoder
    from attar.search.evaluation import Evaluation, evaluation_table
    from attar.search.signatures import SignatureOptions
    from attar.search.statistics import default_statistics

    try:
        chosen = tuple(SignatureOptions(int(each)).size for each in sizes.split(","))
    except ValueError:
        raise OptionError.expected("--sizes", "integers with commas", repr(sizes)) from None
    found = _read_set(data)
    if articles and not found.articles:
        raise OptionError.expected("--articles", "SQuAD's JSON", str(data), "omit it")
    found = (found.by_article() if articles else found).sample(queries)
    encoder = load_encoder(reader)
    statistics = None if own_statistics else default_statistics(encoder.fingerprint, reader)
    with progress_bar() as progress:
        evaluation = Evaluation(found, encoder, statistics, sizes=chosen, progress=progress)
        rows = list(evaluation.run(baseline=baselines))
    counts = f"{len(found.documents):,} documents, {len(found.queries):,} queries"
    fitted = "the set's own documents" if statistics is None else f"{statistics.documents:,} other documents"
    if as_json:
        results = [row.to_json() for row in rows]
        print_json(
            {
                "set": data.name,
                "documents": len(found.documents),
                "queries": len(found.queries),
                "rows": results,
                "left_out": evaluation.left_out,
            }
        )
    else:
        print(f"{data.name}: {counts}; statistics of {fitted}")
        print(columns(evaluation_table(rows)))
    print_search_state(evaluation.left_out)


def refit(
    store: options.StorePath,
    reader: options.ReaderPath = None,
    size: Annotated[
        int | None,
        typer.Option(min=2, max=1_024, help="Rows k of a signature's matrix; as the library has, or 128."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="1-bit, int8 or float16; as the library has, or 1-bit.")
    ] = None,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="Go on without documents that have no text: search loses them."),
    ] = False,
    ray: options.RayAddress = None,
    actors: options.Actors = None,
    threads: options.ActorThreads = 1,
    gpus: options.ActorGpus = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Fit the statistics to the library's own documents and recompute all signatures.

    The shards of a folder of shards are fitted together. With --ray, many processes or machines read.

    attar store refit stories

    attar store refit stories --size 64 --dtype int8

    attar store refit stories-4 --ray 10.0.0.1:6379 --actors 64
    """
    from attar.cluster.encoding import Workers
    from attar.cluster.refitting import fit_statistics

    workers = Workers(actors, threads, gpus)
    given: Any = {"ray": ray is not None, "address": ray, "workers": workers, "size": size, "dtype": dtype}
    with progress_bar() as progress:
        done = fit_statistics(store, reader=reader, leave_out=leave_out, progress=progress, **given)
    if as_json:
        print_json(done)
        return
    print(f"made {done.signatures:,} signatures")
    if done.left_out:
        print(f"{done.left_out:,} without a kept text are left out: search does not find them")
    if done.damaged:
        print(f"{done.damaged:,} damaged ones are left out: see attar store check")


def _read_set(path: Path) -> "RetrievalSet":
    from attar.search.data import from_passages, read_beir
    from attar.training.questions.data import read_passages

    if path.is_dir():
        return read_beir(path)
    passages = read_passages(path)
    rows = (
        (each.text, each.article, [question.text for question in each.questions if question.answers])
        for each in passages
    )
    return from_passages(path.name, rows)
