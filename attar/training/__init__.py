"""Readers from cloze sets: batches, training, evaluation, and the paper's comparison."""
