"""Text into sentences, word pieces and kinds of phrases. The word lists are English."""
