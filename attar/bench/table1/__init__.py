"""`attar bench`: the paper's Table 1, measured."""
