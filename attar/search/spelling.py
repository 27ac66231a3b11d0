"""Words of a query that documents may spell in another way: numbers with and without separators, names with a typo."""

import re
from collections.abc import Iterator
from string import ascii_lowercase

# A number of four digits or more.
_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{4,12})(?![\w]|,\d)")
# In short words, most neighbours are other words: "form", "from", "farm".
_WORD = re.compile(r"[^\W\d_]{5,24}")
# Words of a text that are looked at: a query has few.
_MOST_WORDS = 24


def doubtful_words(text: str) -> list[str]:
    """The long words and the numbers of a text, in lower case, each once.

    >>> doubtful_words("Did Priya Ramen pay 1610 pounds?")
    ['1610', 'priya', 'ramen', 'pounds']
    """
    found = [match[0] for pattern in (_NUMBER, _WORD) for match in pattern.finditer(text)]
    return list(dict.fromkeys(word.lower() for word in found))[:_MOST_WORDS]


def is_number(word: str) -> bool:
    return word[:1].isdigit()


def other_spellings(word: str) -> Iterator[str]:
    """Yield a number as others write it, or the words that differ by one letter, or two swapped, after the first.

    >>> list(other_spellings("1610")), list(other_spellings("1,610,000"))
    (['1,610'], ['1610000'])
    >>> near = list(other_spellings("ramen"))
    >>> len(near), "raman" in near, "rmaen" in near, "raen" in near, "hamen" in near
    (233, True, True, True, False)
    """
    if is_number(word):
        yield word.replace(",", "") if "," in word else f"{int(word):,}"
        return
    near: dict[str, None] = {}
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            near[before + after[1:]] = None
            near.update((before + letter + after[1:], None) for letter in ascii_lowercase)
        if len(after) > 1:
            near[before + after[1] + after[0] + after[2:]] = None
        near.update((before + letter + after, None) for letter in ascii_lowercase)
    near.pop(word, None)
    yield from near
