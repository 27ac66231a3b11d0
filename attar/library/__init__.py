"""A library: a reader and a store; documents by name, questions in, answers out."""

from attar.library.adding import Outcome
from attar.library.library import Library
from attar.library.unknown import UnknownDocumentError

__all__ = ["Library", "Outcome", "UnknownDocumentError"]
