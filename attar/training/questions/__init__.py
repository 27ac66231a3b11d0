"""Training and measuring readers that answer real questions."""
