"""Commands: parse, call, print. Nothing else."""
