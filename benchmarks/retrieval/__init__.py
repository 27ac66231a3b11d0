"""Retrieval: ways to rank documents, compared with BM25 and MaxSim."""
