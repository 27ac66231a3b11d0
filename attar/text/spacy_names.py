"""Names found by spaCy, for texts whose capitals say too little; an optional package."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from attar.errors import MissingError
from attar.text.names import NameTable

LABELS = frozenset(("PERSON", "ORG", "GPE", "LOC", "FAC", "PRODUCT", "WORK_OF_ART", "EVENT"))


class SpacyFinder:
    """Finds names with a spaCy pipeline, a sentence at a time: reading on equals reading at once."""

    def __init__(self, model: str = "en_core_web_sm") -> None:
        try:
            spacy: Any = import_module("spacy")
        except ImportError as fault:
            raise MissingError("names by spaCy", "the package spacy", "none", "pip install spacy") from fault
        try:
            self._pipeline: Any = spacy.load(model)
        except OSError as fault:
            raise MissingError(
                "names by spaCy", f"the model {model}", "none", f"python -m spacy download {model}"
            ) from fault
        self._document: Any = spacy.tokens.Doc

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Give the names' places as (start, stop), in order."""
        read = self._pipeline(self._document(self._pipeline.vocab, words=list(sentence)))
        return [(int(name.start), int(name.end)) for name in read.ents if name.label_ in LABELS]
