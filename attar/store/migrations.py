"""From each version of the format to the next: one numbered function each, made in one transaction.

A migration from n to n + 1 gets the transaction, finds everything as version n wrote it, and
leaves it as version n + 1 would have. It decodes the older values by itself: the modules beside this one know
the newest version only. `tests/store/versions` keeps a small store of every version.
"""

from collections.abc import Callable, Mapping

from attar.errors import RecordError
from attar.store.environment import Transaction
from attar.store.seal import VERSION

Migration = Callable[[Transaction], None]

# By the version that each starts from. Version 1 is the first, so there is none yet.
MIGRATIONS: dict[int, Migration] = {}


def migrate(
    transaction: Transaction,
    version: int,
    newest: int = VERSION,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> list[int]:
    """Bring everything from `version` to the newest, step by step, and give the steps.

    >>> steps = {1: lambda transaction: None, 2: lambda transaction: None}
    >>> migrate(None, 1, newest=3, migrations=steps)
    [1, 2]
    """
    steps = list(range(version, newest))
    for step in steps:
        if step not in migrations:
            raise RecordError(
                "store", f"version {newest}", f"version {version}", "open it with an earlier attar"
            )
        migrations[step](transaction)
    return steps
