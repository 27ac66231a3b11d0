"""Measurements: every speed that the documentation claims comes from here."""
