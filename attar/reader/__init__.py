"""A reader: texts to memories, memories and questions to answers. A reader is kept in a folder."""
