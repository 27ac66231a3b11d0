"""A library: a reader and a store; documents by name, questions in, answers out."""
