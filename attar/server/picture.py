"""A memory's numbers as a picture: rows that a page can paint."""

import numpy as np

from attar.memory import Floats, Memory
from attar.wire import Picture

# A screen shows no more.
ROWS, COLUMNS = 256, 512


def picture_of(memory: Memory) -> Picture:
    """The numbers of a memory, one row a name where rows are names; others thinned out to what a screen shows.

    >>> picture_of(Memory.of("linear", np.eye(2), tokens=3, reader="r")).values
    [[1.0, 0.0], [0.0, 1.0]]
    """
    values: Floats = np.atleast_2d(memory.array())
    rows, columns = values.shape
    shown_rows, shown_columns = thinned(rows, ROWS), thinned(columns, COLUMNS)
    names = memory.names.names if memory.form == "names" else []
    # Four digits are more than a colour has.
    shown = [
        [float(f"{value:.4g}") for value in row] for row in values[np.ix_(shown_rows, shown_columns)].tolist()
    ]
    return Picture(rows, columns, [names[at] for at in shown_rows] if names else [], shown)


def thinned(count: int, most: int) -> list[int]:
    """So many places at most, evenly spread.

    >>> thinned(3, 5), thinned(10, 5)
    ([0, 1, 2], [0, 2, 4, 6, 8])
    """
    return list(range(count)) if count <= most else [at * count // most for at in range(most)]
