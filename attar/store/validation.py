"""What may be written: a document's entry, its memory and its text, each by itself and compared with the others."""

import contextlib
import re
from dataclasses import dataclass

import msgspec

from attar.errors import OptionError, RecordError, quoted
from attar.memory.memory import Memory
from attar.store import format
from attar.store.format import LONGEST_PLAIN_KEY, DocumentEntry, Record, digest_of, key_of
from attar.store.origin import unpack_parts

_REMEDY = "add the document again"


@dataclass(frozen=True)
class Fault:
    """A fault in one line, and the document that has it (None: the store itself)."""

    name: str | None
    line: str


def entry_data(entry: DocumentEntry) -> bytes:
    """Encode an entry; one that could not be read again is refused.

    >>> entry_data(DocumentEntry("emma", 5, b"", 0, 0, 1, "last", "float32", 9))
    Traceback (most recent call last):
    attar.errors.OptionError: title of 'emma': expected `str`, got `int`
    """
    try:
        data = format.encode(entry)
        format.decode_entry(data)
    except msgspec.ValidationError as fault:
        expected, came, field = explain_invalid(fault, DocumentEntry.__struct_fields__)
        raise OptionError.expected(f"{field} of {quoted(str(entry.name))}", expected, came) from fault
    except UnicodeEncodeError as fault:
        what, remedy = f"entry of {quoted(str(entry.name))}", "decode it as UTF-8"
        raise OptionError.expected(what, "text", "half of a surrogate pair", remedy) from fault
    except (TypeError, OverflowError) as fault:
        raise OptionError.expected(
            f"entry of {quoted(str(entry.name))}", "names, numbers and bytes", str(fault)
        ) from fault
    return data


def explain_invalid(fault: msgspec.ValidationError, fields: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return what msgspec expected, what came, and the field, whose number in an array is replaced by its name.

    >>> explain_invalid(msgspec.ValidationError("Expected `str`, got `int` - at `$[1]`"), ("name", "title"))
    ('`str`', '`int`', 'title')
    """
    line, _, path = str(fault).partition(" - at `$")
    if line.startswith("Invalid enum value "):
        line = "one of its values, got " + line.removeprefix("Invalid enum value ")
    expected, _, came = line.removeprefix("Expected ").partition(", got ")
    number = re.match(r"\[(\d+)\]", path)
    field = (
        fields[int(number[1])] if number and int(number[1]) < len(fields) else path.rstrip("`").lstrip(".")
    )
    return expected, came or "another value", field or "entry"


def entry_or_fault(key: bytes, value: memoryview) -> DocumentEntry | Fault:
    """Read the value of an entry that lies under a key; if that fails, return its fault."""
    entry = None
    with contextlib.suppress(RecordError):
        entry = format.read_entry(value, "")
        if key_of(entry.name) == key:
            return entry
    name = name_in(key)
    if entry is not None:
        return Fault(
            name, f"entry of {quoted(name)}: expected an entry of that name, got {quoted(entry.name)}"
        )
    try:
        return format.read_entry(value, name)
    except RecordError as fault:
        return Fault(name, str(fault))


def name_in(key: bytes) -> str:
    """Return the name in a key, as far as it has it: of a long name, the beginning."""
    name = key[:LONGEST_PLAIN_KEY].decode(errors="replace")
    return name if len(key) <= LONGEST_PLAIN_KEY else name + "…"


def check_numbers(memory: Memory, name: str) -> None:
    """Refuse a memory that holds NaN or infinity: every answer from it would be NaN."""
    if not memory.is_finite():
        raise OptionError.expected(f"memory of {quoted(name)}", "finite numbers", "NaN or infinity")


def check_record(record: Record, reader: str | None = None) -> Memory:
    """Decode all that a record holds, compare its parts, and return its memory; raises for what does not match."""
    entry, name = record.entry, record.name
    _expect(name, "memory's bytes", entry.memory_bytes, len(record.memory_data))
    memory = Memory.from_bytes(record.memory_data)
    memory.check_contents()
    _expect(name, "reader", reader or memory.reader, memory.reader)
    for field in ("tokens", "form", "dtype"):
        _expect(name, field, getattr(entry, field), getattr(memory, field))
    _expect(name, "text", entry.text_bytes is not None, record.text_data is not None)
    if record.text_data is not None and record.text is not None:
        _expect(name, "text's bytes", entry.text_bytes, len(record.text_data))
        digest = digest_of(record.text)
        _expect(name, "digest", entry.digest or digest, digest)
    elif entry.digest:
        _expect(name, "digest's length", 32, len(entry.digest))
    unpack_parts(entry.parts, name)
    return memory


def _expect(name: str, what: str, expected: object, came: object) -> None:
    if expected != came:
        raise RecordError.expected(f"{what} of {quoted(name)}", repr(expected), repr(came), _REMEDY)
