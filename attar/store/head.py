"""A store's own head: written when the store is made, and brought up to date when a later version opens it."""

from attar.errors import FormatError
from attar.store.environment import Environment, Transaction
from attar.store.faults import StoreError, lines_for
from attar.store.migrations import migrate
from attar.store.reading import HEAD, about_in
from attar.store.record import About, encode, now
from attar.store.seal import VERSION, seal, version_of

# A larger file without a head has lost it; what a killed process leaves of a store in the making is smaller.
NEW = 2**16


def make_or_bring_up_to_date(environment: Environment, dtype: str | None, create: bool) -> About:
    """Give the head of a store; make the store if there is none yet and `create` allows it."""
    if needs_writing(environment, create) and not environment.read_only:
        write_head(environment, dtype)
    with environment.moment() as transaction:
        return about_in(transaction, environment)


def needs_writing(environment: Environment, create: bool) -> bool:
    """Tell whether a store has to be made here, or one of an earlier version has to be brought up to date."""
    with environment.moment() as transaction:
        what = f"store {environment.folder}"
        if transaction.get(HEAD) is not None:
            return is_earlier(transaction)
        entries = transaction.stat(environment.map.open_db(None))["entries"]
        if entries or environment.file_bytes() > NEW:
            raise FormatError(what, "a store", "another database, or a damaged one", "name another place")
        if not create:
            raise StoreError(what, "a store", "an empty database", "name another place")
        return True


def is_earlier(transaction: Transaction) -> bool:
    """Tell whether the store is of an earlier version."""
    return 0 < version_of(transaction.get(HEAD, b"")) < VERSION


def write_head(environment: Environment, dtype: str | None) -> None:
    """Make the store, or bring it up to date, in one change."""
    with environment.writing_turn(None), lines_for(environment.folder):
        transaction, thread = environment.begin(write=True)
        try:
            # Another process may have done so while this one waited for its turn.
            head = transaction.get(HEAD)
            if head is None:
                transaction.put(HEAD, seal(b"a", encode(About(None, dtype or "float32", now()))))
            elif is_earlier(transaction):
                migrate(transaction, version_of(head))
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
        finally:
            environment.gate.leave(thread)
        environment.fill_up()
