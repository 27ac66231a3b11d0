"""A library inside other programs: as an MCP server, and as a retriever and a tool of frameworks for language models.

Each module needs one package, which is not among Attar's own: import the module that you need.
"""
