"""Retrieval: ways to rank documents, compared with BM25, MaxSim and MUVERA."""
