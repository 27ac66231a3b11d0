"""Which documents are for training, which for validation, which for the test."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attar.errors import OptionError
from attar.text.cloze.document import SPLITS

_RULE = re.compile(r"i\s*%\s*(\d+)\s*==\s*(\d+)")


def split_documents(names: Sequence[str], validation: str, test: str, seed: int) -> list[str]:
    """Give every document its split by a share (`0.08`), a rule on its place (`i%20==0`), or a file of names.

    Shares are drawn from the sorted names, so that neither order nor packing of the sources matters.

    >>> split_documents(["a", "b", "c", "d"], "i%2==1", "0.25", seed=0)
    ['training', 'validation', 'test', 'validation']
    """
    splits = [""] * len(names)
    wanted = (("validation", validation), ("test", test))
    shares = {split: share for split, rule in wanted if (share := _share(rule)) is not None}
    for split, rule in wanted:
        if split not in shares:
            for at in _listed(names, rule, split):
                splits[at] = splits[at] or split
    order = sorted((at for at, split in enumerate(splits) if not split), key=lambda at: (names[at], at))
    # The permutation of the older generator is the one by which published splits of these corpora are given.
    drawn = [order[place] for place in np.random.RandomState(seed).permutation(len(order))]
    done = 0
    for split, share in shares.items():
        number = max(round(share * len(names)), 1 if share > 0 and len(drawn) >= 3 else 0)
        for at in drawn[done : done + number]:
            splits[at] = split
        done += number
    return [split or SPLITS[0] for split in splits]


def _share(rule: str) -> float | None:
    try:
        share = float(rule)
    except ValueError:
        return None
    if not 0 <= share < 1:
        raise OptionError("share of documents", "a number from 0 to below 1", rule)
    return share


def _listed(names: Sequence[str], rule: str, split: str) -> list[int]:
    match = _RULE.fullmatch(rule.strip())
    if match:
        every, rest = int(match[1]), int(match[2])
        if rest >= every:
            raise OptionError(split, "i%N==R with R below N", rule)
        return [at for at in range(len(names)) if at % every == rest]
    if not Path(rule).is_file():
        raise OptionError(
            split, "a share such as 0.08, a rule such as i%20==0, or a file of names", repr(rule)
        )
    wanted = {line.strip() for line in Path(rule).read_text(encoding="utf-8").splitlines() if line.strip()}
    keys = [
        {name, name.rsplit("/", 1)[-1], name + ".txt", name.rsplit("/", 1)[-1] + ".txt"} for name in names
    ]
    missing = wanted - set().union(*keys)
    if missing:
        raise OptionError(rule, "names of documents", f"{len(missing)} unknown ones such as {min(missing)!r}")
    return [at for at, key in enumerate(keys) if key & wanted]
