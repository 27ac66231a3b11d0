"""Text into sentences, tokens, names and ids; questions. The word lists are English.

Names load on first use: a memory has a table of names, and needs no tokenizer.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.text.name_table import NameTable
    from attar.text.names import (
        CapitalFinder,
        NameFinder,
        SpacyFinder,
        learn_names,
        mark_names,
        start_of_titles,
    )
    from attar.text.pieces import COMMON, PieceText, PieceTokenizer, coarse_kind, is_english, kind_of
    from attar.text.reading import ReadText, TextReader
    from attar.text.tokens import LONGEST_SENTENCE, PLACEHOLDER, iterate_sentences, sentence_spans
    from attar.text.vocabulary import ENTITIES, VOCABULARY_SIZE, Vocabulary

__all__ = [
    "COMMON",
    "ENTITIES",
    "LONGEST_SENTENCE",
    "PLACEHOLDER",
    "VOCABULARY_SIZE",
    "CapitalFinder",
    "NameFinder",
    "NameTable",
    "PieceText",
    "PieceTokenizer",
    "ReadText",
    "SpacyFinder",
    "TextReader",
    "Vocabulary",
    "coarse_kind",
    "is_english",
    "iterate_sentences",
    "kind_of",
    "learn_names",
    "mark_names",
    "sentence_spans",
    "start_of_titles",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
