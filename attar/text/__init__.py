"""Text into sentences, tokens, names and ids; questions; files into texts. The word lists are English."""

from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, NameFinder, SpacyFinder, mark_names
from attar.text.reading import ReadText, TextReader
from attar.text.sources import (
    SOURCE_SUFFIXES,
    SourceDocument,
    decode_text,
    read_sources,
    replace_surrogates,
)
from attar.text.tokens import LONGEST_SENTENCE, PLACEHOLDER, iterate_sentences
from attar.text.vocabulary import ENTITIES, VOCABULARY_SIZE, Vocabulary

__all__ = [
    "ENTITIES",
    "LONGEST_SENTENCE",
    "PLACEHOLDER",
    "SOURCE_SUFFIXES",
    "VOCABULARY_SIZE",
    "CapitalFinder",
    "NameFinder",
    "NameTable",
    "ReadText",
    "SourceDocument",
    "SpacyFinder",
    "TextReader",
    "Vocabulary",
    "decode_text",
    "iterate_sentences",
    "mark_names",
    "read_sources",
    "replace_surrogates",
]
