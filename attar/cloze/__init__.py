"""Cloze sets: documents with names as `@entityN` and questions with one name blanked."""
