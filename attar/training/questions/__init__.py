"""Training of readers that answer real questions."""
