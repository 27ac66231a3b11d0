"""Kinds of mistakes that only text can hold."""

from attar.errors import AttarError


class FormatError(AttarError, ValueError):
    """A file or a question that is not written as it should be.

    >>> raise FormatError("a.txt", "UTF-8 text", "a binary file", "leave it out")
    Traceback (most recent call last):
    attar.text.mistakes.FormatError: a.txt: expected UTF-8 text, got a binary file; leave it out
    """
