"""The mechanisms with their parameters: modules for a model of one's own."""
