"""`attar bench …`: measurements, side by side in one run."""

import typer

app = typer.Typer(help="Measure Attar beside its alternatives, on this machine.", no_args_is_help=True)
