"""Words: tokens, names, questions, corpora and cloze sets. English where a language must be chosen."""

from attar.text.corpora import (
    KINDS,
    SourceDocument,
    decode,
    encodable,
    read_sources,
)
from attar.text.entities import (
    CapitalFinder,
    NameFinder,
    mark,
)
from attar.text.names import (
    NameTable,
)
from attar.text.reading import (
    ReadText,
    TextReader,
)
from attar.text.spacy_names import (
    SpacyFinder,
)
from attar.text.tokens import (
    LONGEST,
    PLACEHOLDER,
    iterate_sentences,
)
from attar.text.vocabulary import (
    ENTITIES,
    SIZE,
    Vocabulary,
)

__all__ = [
    "ENTITIES",
    "KINDS",
    "LONGEST",
    "PLACEHOLDER",
    "SIZE",
    "CapitalFinder",
    "NameFinder",
    "NameTable",
    "ReadText",
    "SourceDocument",
    "SpacyFinder",
    "TextReader",
    "Vocabulary",
    "decode",
    "encodable",
    "iterate_sentences",
    "mark",
    "read_sources",
]
