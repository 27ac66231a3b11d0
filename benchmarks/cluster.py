"""`python -m benchmarks.cluster`: reading with Ray against one process."""

from attar.paper.timing import this_machine
from benchmarks.cluster_reading import reading_case
from benchmarks.command import Json, Only, Quick, run_command, show
from benchmarks.report import run_cases


def main(only: Only = None, json: Json = False, quick: Quick = False) -> None:
    """Compare a cluster of Ray on this machine with one process."""
    cases = [reading_case(20 if quick else 300)]
    show(run_cases(this_machine(), cases, only, judged=not quick), json)


if __name__ == "__main__":
    run_command(main)
