"""Search: documents ranked by signatures of fixed size and by their words.

Names load on first use: the command line reads `SignatureOptions` without loading numpy.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.search.data import RetrievalSet, from_passages, read_beir
    from attar.search.encoders import load_encoder
    from attar.search.evaluation import Evaluation, Measured, evaluation_table
    from attar.search.index import LISTS_FROM, SearchIndex
    from attar.search.lexical import Corpus, Lexical
    from attar.search.lists import InvertedLists
    from attar.search.moments import Moments
    from attar.search.ranking import RERANKED, Common, Ranked, SearchQuery, rerank
    from attar.search.records import (
        Collector,
        ReaderEncoder,
        SignatureRecord,
        Signer,
        TokenEncoder,
        default_options,
        fitted_data,
        merged,
        stored_options,
    )
    from attar.search.scan import CANDIDATES, best, scores
    from attar.search.signatures import SignatureOptions, Sums, pack, query_of, unpack
    from attar.search.state_map import StateMap
    from attar.search.statistics import Projection, Statistics, default_statistics

__all__ = [
    "CANDIDATES",
    "LISTS_FROM",
    "RERANKED",
    "Collector",
    "Common",
    "Corpus",
    "Evaluation",
    "InvertedLists",
    "Lexical",
    "Measured",
    "Moments",
    "Projection",
    "Ranked",
    "ReaderEncoder",
    "RetrievalSet",
    "SearchIndex",
    "SearchQuery",
    "SignatureOptions",
    "SignatureRecord",
    "Signer",
    "StateMap",
    "Statistics",
    "Sums",
    "TokenEncoder",
    "best",
    "default_options",
    "default_statistics",
    "evaluation_table",
    "fitted_data",
    "from_passages",
    "load_encoder",
    "merged",
    "pack",
    "query_of",
    "read_beir",
    "rerank",
    "scores",
    "stored_options",
    "unpack",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
