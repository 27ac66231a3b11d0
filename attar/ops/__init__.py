"""The mathematics: pure functions on tensors. No parameters, no text, no files."""
