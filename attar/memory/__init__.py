"""What a document becomes: its numbers in one of six forms, their algebra, their bytes. numpy, no torch."""

from attar.memory.memory import Memory

__all__ = ["Memory"]
