"""Every page and every record of a store, looked at."""

from collections.abc import Iterator
from dataclasses import dataclass

from attar.errors import AttarError
from attar.memory import Memory
from attar.store.environment import Environment, Transaction
from attar.store.faults import quoted
from attar.store.keys import key_of
from attar.store.reading import about_in, facts_in
from attar.store.record import About, Facts, digest_of, text_from
from attar.store.seal import payload_of


@dataclass(frozen=True)
class Fault:
    """What is wrong, in one line, and with which document (None: with the store itself)."""

    name: str | None
    line: str


def faults_in(environment: Environment) -> Iterator[Fault]:
    """Yield what is wrong with a store: with LMDB's pages first, and if those are sound with its records."""
    faults = environment.page_faults()
    if faults:
        # LMDB must not walk through such a file: it could end the process.
        yield from (Fault(None, f"store {environment.folder}: {fault}") for fault in faults)
        return
    with environment.moment() as transaction:
        yield from record_faults(environment, transaction)


def record_faults(environment: Environment, transaction: Transaction) -> Iterator[Fault]:
    """Yield what is wrong with the records of one moment, and with the head that counts them."""
    what = f"store {environment.folder}"
    try:
        about = about_in(transaction, environment)
    except AttarError as fault:
        yield Fault(None, str(fault))
        return
    found, entries = About(about.reader, about.dtype, about.created), 1
    with transaction.cursor() as cursor:
        for key, value in cursor if cursor.set_range(b"f") else ():
            if bytes(key[:1]) != b"f":
                break
            name = str(key[1:], "utf-8", "replace")
            try:
                facts = facts_in(value, name)
                memory = transaction.get(b"m" + key[1:], b"")
                text = transaction.get(b"t" + key[1:])
                entries += 2 + (text is not None)
                found = found.plus(facts)
                check_record(bytes(key[1:]), facts, memory, text, about)
            except AttarError as fault:
                yield Fault(name, str(fault))
    if found != about:
        yield Fault(None, f"{what}: expected {about}, got {found}")
    elif entries != (count := transaction.stat(environment.map.open_db(None))["entries"]):
        yield Fault(None, f"{what}: expected {entries:,} entries for its documents, got {count:,}")


def check_record(key: bytes, facts: Facts, memory: memoryview, text: memoryview | None, about: About) -> None:
    """Compare all that the store says of a document with what it holds."""
    name = facts.name
    expect(name, "key", key_of(name), key)
    data = payload_of(b"m", memory, name)
    expect(name, "memory's bytes", facts.memory_bytes, len(data))
    expect_memory(facts, Memory.from_bytes(data), about)
    expect(name, "text", facts.text_bytes is not None, text is not None)
    if text is not None:
        packed = payload_of(b"t", text, name)
        expect(name, "text's bytes", facts.text_bytes, len(packed))
        written = text_from(packed, name)
        expect(name, "digest", facts.digest or digest_of(written), digest_of(written))


def expect_memory(facts: Facts, memory: Memory, about: About) -> None:
    """Compare what the facts and the head say of a memory with the memory itself."""
    expect(facts.name, "reader", about.reader, memory.reader)
    expect(facts.name, "tokens", facts.tokens, memory.tokens)
    expect(facts.name, "form", facts.form, memory.form)
    expect(facts.name, "dtype", facts.dtype, str(memory.numbers.dtype))


def expect(name: str, what: str, expected: object, came: object) -> None:
    """Raise unless the two are equal."""
    if expected != came:
        raise AttarError(f"{what} of {quoted(name)}", repr(expected), repr(came), "add the document again")
