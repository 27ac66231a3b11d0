"""The kind of a phrase: name, date, time, money, number or phrase, by rules."""

import re

from attar.text.english import DAYS_AND_MONTHS, word_set

_DAY_OR_MONTH = "|".join(
    sorted(re.escape(word) for word in DAYS_AND_MONTHS if word not in ("may", "march", "lent"))
)
_DATE = re.compile(
    rf"\b(?:{_DAY_OR_MONTH})(?!\w)|(?-i:\bMay\b|\bMarch\b)"
    r"|\b(?:1[0-9]|20)\d\ds?\b|\b\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b|\bcentur(?:y|ies)\b|\bdecades?\b"
    r"|\b(?:today|tomorrow|yesterday)\b|^(?:the )?(?:spring|summer|autumn|winter)$",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b\d{1,2}(?::\d\d|\.\d\d)?\s*(?:[ap]\.?m\b|o'clock)|\b\d{1,2}:\d\d\b|\b(?:noon|midnight)\b",
    re.IGNORECASE,
)
_MONEY = re.compile(r"[$€£¥]|\b(?:dollars?|euros?|pounds?|cents?|usd|eur|gbp)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|half|twice|dozen|percent)\b",
    re.IGNORECASE,
)
_SMALL = word_set("a an and at by de for from in la le of on or the to van von with")
# Words that say nothing of what a sentence is about.
COMMON = word_set(
    "the a an of in on at to for and or is was were are by with from as it its that this his her"
)


def kind_of(phrase: str) -> str:
    """The kind of a phrase.

    >>> [kind_of(text) for text in ("Ann Lee", "the 4th of May", "half past", "$3.50", "10:30", "12 apples")]
    ['name', 'date', 'number', 'money', 'time', 'number']
    >>> kind_of("University of Oslo"), kind_of("a red hat")
    ('name', 'phrase')
    """
    for kind, pattern in (("money", _MONEY), ("time", _TIME), ("date", _DATE), ("number", _NUMBER)):
        if pattern.search(phrase):
            return kind
    words = [word for word in re.findall(r"[^\W\d_]+", phrase) if word.lower() not in _SMALL]
    return "name" if words and all(word[0].isupper() for word in words) else "phrase"
