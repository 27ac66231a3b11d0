"""Writes the small store that `test_format` keeps of every version of the format.

Run once, before the format changes: `python tests/store/versions/write.py tests/store/versions/1`.
"""

import sys
from pathlib import Path

import numpy as np

from attar.memory.memory import Memory
from attar.store.store import Store
from attar.text.name_table import NameTable

TEXTS = {"emma": "Emma Woodhouse, handsome, clever, and rich", "ch. 2\n": None, "x" * 600: ""}


def memory(number: int) -> Memory:
    """The memory of the document with this number: C = number · I, names and an encoder's state."""
    names = NameTable()
    names.learn(["Emma", "Woodhouse"])
    C, state = number * np.eye(3), np.arange(2.0)
    return Memory.of_matrix(C, tokens=number, reader="reader-1", names=names, state=state)


def write(folder: Path) -> None:
    """Write the documents, and leave nothing but the data."""
    with Store.open(folder, dtype="float16") as store:
        for number, (name, text) in enumerate(TEXTS.items(), start=1):
            store.put(name, memory(number), title=name.title(), text=text)
        store.compact()
    (folder / "lock.mdb").unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
