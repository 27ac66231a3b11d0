"""LMDB's keys: a letter for what lies there (`seal.Kind`), and the document's name; any name, in order.

LMDB's keys have 511 bytes at most. A name that is longer becomes its beginning and its SHA-256; such keys are
longer than any plain one, so the two never meet, and the record keeps the name itself. Names that share so
long a beginning lie together, in the order of their digests; whoever lists them sorts that group by name.
"""

import hashlib

from attar.errors import OptionError
from attar.store.faults import quoted

DIGEST = 32
PLAIN = 511 - 1 - DIGEST


def key_of(name: str) -> bytes:
    """Give the key of a name, without the letter before it.

    >>> key_of("Emma, ch. 1"), len(key_of("x" * 10_000))
    (b'Emma, ch. 1', 510)
    """
    try:
        key = name.encode()
    except UnicodeEncodeError:
        raise OptionError(f"name {quoted(name)}", "text", "half of a surrogate pair", "rename it") from None
    if not key:
        raise OptionError("name", "at least one character", "an empty one")
    if len(key) > PLAIN:
        return key[:PLAIN] + hashlib.sha256(key).digest()
    return key


def is_long(key: bytes) -> bool:
    """Tell whether a key stands for a name that is longer than itself.

    >>> is_long(key_of("x" * 478)), is_long(key_of("x" * 479))
    (False, True)
    """
    return len(key) > PLAIN
