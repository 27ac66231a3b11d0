"""Search: documents ranked by signatures of fixed size and by their words."""
