"""Words: tokens, names, questions, corpora and cloze sets. English where a language must be chosen."""
