"""Which documents are for training, which for validation, which for the test."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attar.cloze.options import SPLITS
from attar.errors import FormatError, OptionError

_RULE = re.compile(r"i\s*%\s*(\d{1,9})\s*==\s*(\d{1,9})")


def split_documents(names: Sequence[str], validation: str, test: str, seed: int) -> list[str]:
    """Give every document its split by a share (`0.08`), a rule on its place (`i%20==0`), or a file of names.

    Shares are drawn from the sorted names, so that neither order nor packing of the sources matters.

    >>> split_documents(["a", "b", "c", "d"], "i%2==1", "0.25", seed=0)
    ['training', 'validation', 'test', 'validation']
    """
    splits = [""] * len(names)
    wanted = (("validation", validation), ("test", test))
    shares = {split: share for split, rule in wanted if (share := share_of(rule)) is not None}
    if sum(shares.values()) >= 1:
        expected = "shares that leave documents for training"
        raise OptionError("validation and test", expected, f"{validation} and {test}")
    for split, rule in wanted:
        if split not in shares:
            for at in _listed(names, rule, split):
                if splits[at]:  # a leak, or not what was meant
                    raise OptionError("validation and test", "no document in both", repr(names[at]))
                splits[at] = split
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


def share_of(rule: str) -> float | None:
    """Give the share that a rule is, None for another kind of rule.

    >>> share_of("0.08"), share_of("i%20==0")
    (0.08, None)
    """
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
    wanted = _read_list(rule, split)
    keys = [
        {name, name.rsplit("/", 1)[-1], name + ".txt", name.rsplit("/", 1)[-1] + ".txt"} for name in names
    ]
    missing = wanted - set().union(*keys)
    if missing:
        raise OptionError(rule, "names of documents", f"{len(missing)} unknown ones such as {min(missing)!r}")
    return [at for at, key in enumerate(keys) if key & wanted]


def _read_list(rule: str, split: str) -> set[str]:
    try:
        if not Path(rule).is_file():
            expected = "a share such as 0.08, a rule such as i%20==0, or a file of names"
            raise OptionError(split, expected, repr(rule))
        lines = Path(rule).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        came = f"the byte 0x{fault.object[fault.start]:02x} at {fault.start}"
        raise FormatError(rule, "UTF-8 text", came, "convert it (iconv -t UTF-8)") from fault
    except OSError as fault:
        raise FormatError(rule, "a file of names", fault.strerror or "an unreadable one") from fault
    return {line.strip() for line in lines if line.strip()}
