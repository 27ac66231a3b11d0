"""What English word lists tell: the kind of phrase that an answer is, and whether a question is in English.

Also words as they are compared, by which equal phrases are recognised.
"""

import re
import unicodedata

from attar.text import english
from attar.text.english import word_set

_DAY_OR_MONTH = "|".join(
    sorted(re.escape(word) for word in english.DAYS_AND_MONTHS if word not in ("may", "march", "lent"))
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
_NUMBER_WORD = rf"\b(?:{'|'.join(sorted(english.NUMBER_WORDS))})\b"
_NUMBER = re.compile(rf"\d|{_NUMBER_WORD}", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_]+\.(?=\s\S)|[^\W_]+(?:[.,:'’⁄-][^\W_]+)*|&")
_LETTERS = re.compile(r"[^\W\d_]+")
# A phrase without any of these is no date, time, money or number; looking them up is faster than the patterns.
_DIGIT_OR_SIGN = re.compile(r"[\d$€£¥]")
_QUANTITY_WORDS = (
    english.NUMBER_WORDS
    | frozenset(word.rstrip(".") for word in english.DAYS_AND_MONTHS)
    | word_set(
        "one century centuries decade decades today tomorrow yesterday spring summer autumn winter noon midnight"
    )
)
_CLOCK = re.compile(rf"{_TIME.pattern}|\b(?:half|quarter) (?:past|to)\b|o['’]clock\b", re.IGNORECASE)
# How an amount begins: about 60 litres, at least one, -3.5 °C; not 3D, three-way.
_AMOUNT = re.compile(
    r"(?:(?:about|around|nearly|almost|over|under|only|just|at least|at most|more than|less than|up to|some|every"
    r"|approximately|roughly|an?|from|between|for|the) )*[$€£¥~−-]?\s?"
    rf"(?:one\b|{_NUMBER_WORD}|\d[\d.,:⁄/–-]*(?:\s?(?:%|°|[kcm]?m|k?g|m?l|ft|mph|[kmg]b|years?)\b)?)"
    r"(?![^\W\d_]|-[^\W\d])",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)?(?:[/.,–-]\d+)*")
_DATE_WORDS = frozenset(word.rstrip(".") for word in english.DAYS_AND_MONTHS) | word_set(
    "the of in on at by since until till from to through and between during before after early late mid "
    "next last this every each spring summer autumn fall winter century centuries decade decades year years "
    "today tomorrow yesterday morning afternoon evening night ad bc bce ce first second third fourth fifth sixth "
    "seventh eighth ninth tenth week weekend"
)
_TIME_WORDS = word_set(
    "the of in on at by since until from to and between before after half quarter past noon midnight a.m p.m am pm "
    "o'clock one two three four five six seven eight nine ten eleven twelve morning afternoon evening about m p a"
)
_VERBS = word_set("is are was were has had have be been it they he she we you came fell went only")
_NEXT_WORD = re.compile(r",? ([^\W_]+)")
_COMMON_ENDINGS = (*english.COMMON_ENDINGS, "logy", "phers", "ists", "body", "thing")
_FIRST_NAMES = english.NAMES_OF_MEN | english.NAMES_OF_WOMEN
_PLACES = english.PLACES_FIRST - english.PEOPLES - english.BRANDS
_SMALL = word_set("a an and at by de for from in la le of on or the to van von with")
# Letters of other scripts than Latin.
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
# This many words that English or names have as well say that a question is in another language: van der Meer has two.
_SHARED = 3
# Words that say nothing of what a sentence is about.
COMMON = word_set(
    "the a an of in on at to for and or is was were are by with from as it its that this his her"
)


def kind_of(phrase: str, before: str = "", after: str = "") -> str:
    """The kind of a phrase: person, place, organization, another name, date, time, money, number, or other phrase.

    The words before and after it in its sentence tell some names apart.

    >>> [kind_of(text) for text in ("the 4th of May", "half past ten", "$3.50", "12 apples", "a red hat")]
    ['date', 'time', 'money', 'number', 'phrase']
    >>> [kind_of(text) for text in ("Mr. Lee", "the Black Forest", "University of Oslo", "Apollo 11")]
    ['person', 'place', 'organization', 'name']
    >>> kind_of("Bath", "We live in "), kind_of("Okonkwo", "", " said nothing.")
    ('place', 'person')
    """
    words = _TOKEN.findall(phrase)
    lower = [word.lower() for word in words]
    if quantity := _quantity(phrase, lower):
        return quantity
    if len(words) > 1 and lower[0] in english.BEFORE_PLACES:
        return "place" if kind_of(phrase.partition(words[0])[2], lower[0]) == "place" else "phrase"
    content = [word for word in words if word.lower() not in _SMALL]
    if not content or not all(word[0].isupper() or not word[0].isalpha() for word in content):
        return "phrase"
    if len(content) == 1 and _is_common(content[0], before):
        return "phrase"
    return _kind_of_name(words, lower, before, after)


def _is_common(word: str, before: str) -> bool:
    """Whether a word with a capital is no name: a greeting, a code, or the common first word of a sentence."""
    lower = word.lower()
    if lower in english.ALONE or (word.isalnum() and not word.isalpha() and not word.isdigit()):
        return True
    starts = not before.rstrip(" \"“'")[-1:].isalnum()
    return starts and (lower in english.FUNCTION_WORDS or lower.endswith(_COMMON_ENDINGS))


def _quantity(phrase: str, lower: list[str]) -> str:
    """Date, time, money or number, if a phrase is one and does not only contain one."""
    if not _DIGIT_OR_SIGN.search(phrase) and _QUANTITY_WORDS.isdisjoint(_LETTERS.findall(phrase.lower())):
        return ""
    if _DATE.search(phrase) and all(word in _DATE_WORDS or _ORDINAL.fullmatch(word) for word in lower):
        return "date"
    if _CLOCK.search(phrase) and all(word in _TIME_WORDS or word[0].isdigit() for word in lower):
        return "time"
    if not _AMOUNT.match(phrase):
        return ""
    others = [word for word in lower if not _NUMBER.fullmatch(word) and not word[0].isdigit()]
    if len(others) > 5 or not _VERBS.isdisjoint(others):
        return ""
    if _MONEY.search(phrase):
        return "money"
    if len(others) == 1 and _DATE.search(phrase):  # 4. März 2025
        return "date"
    return "number" if len(others) <= 3 and english.PLACE_NOUNS.isdisjoint(others[-1:]) else ""


def _kind_of_name(words: list[str], lower: list[str], before: str, after: str) -> str:
    """Person, place, organization, or another name: by its words, or else by those around it."""
    plain = [word.rstrip(".") for word in lower]
    first, last, several = plain[0], plain[-1], len(words) > 1
    if several and first in english.TITLES and last not in english.NOT_PEOPLE and plain[1] != "of":
        return "person"
    # What a name is called by stands at its end, or before "of": Bank of England.
    until = next((at for at, word in enumerate(plain) if at and word in ("of", "for", "at")), len(plain))
    for word in reversed(plain[:until]):
        if word in english.ORGANIZATION_NOUNS:
            return "organization"
        if word in english.PLACE_NOUNS or word in english.MORE_PLACE_NOUNS:
            return "place"
        if word in english.NOT_PEOPLE and word not in english.PLACE_PREFIXES:
            return "name"
    if first in english.PEOPLES or first in english.BRANDS:
        return "organization" if words[0].isupper() and not several else "name"
    if several and first in _FIRST_NAMES:
        return "person"
    if last in _PLACES or (several and first in english.PLACE_PREFIXES and first not in ("st", "saint")):
        return "place"
    initials = any(len(word) == 2 and word[1] == "." for word in words[:-1])
    if initials or not english.PARTICLES.isdisjoint(plain[1:-1]):
        return "person"
    if "&" in words or (not several and words[0].isupper() and 1 < len(words[0]) < 6):
        return "organization"
    return _kind_by_context(words, plain, before, after)


def _kind_by_context(words: list[str], plain: list[str], before: str, after: str) -> str:
    """The kind of a name whose own words do not tell."""
    previous = [word.lower() for word in _TOKEN.findall(before[-40:])[-2:]]
    near = previous[-1] if previous else ""
    article = "the" in (plain[0], near)
    if near in english.BEFORE_ORGANIZATIONS or previous[:1] in (["works"], ["worked"]):
        return "organization"
    in_place = near in english.BEFORE_PLACES or (near == "of" and not article)
    if any(word[0].isdigit() for word in words):
        address = words[0][0].isdigit() or plain[0].endswith(english.PLACE_ENDINGS)
        return "place" if address or near in english.BEFORE_PLACES else "name"
    following = _NEXT_WORD.match(after)
    acts = following is not None and following[1] in english.AFTER_PEOPLE
    introduced = near in english.BEFORE_PEOPLE or near in english.TITLES
    if not article and near != "in" and (plain[-1] in _FIRST_NAMES or acts or introduced):
        return "person"
    if in_place or plain[-1].endswith(english.PLACE_ENDINGS):
        return "place"
    if article or "and" in plain or plain[0] in english.FUNCTION_WORDS:
        return "name"
    return "person" if len(words) in (2, 3) or after.startswith(("'s", "’s")) else "name"


def coarse_kind(phrase: str) -> str:
    """The kind of a phrase as calibrations were fitted with it: names are of one kind.

    >>> [coarse_kind(text) for text in ("Ann Lee", "the 4th of May", "half past", "$3.50", "10:30", "12 apples")]
    ['name', 'date', 'number', 'money', 'time', 'number']
    >>> coarse_kind("University of Oslo"), coarse_kind("a red hat")
    ('name', 'phrase')
    """
    for kind, pattern in (("money", _MONEY), ("time", _TIME), ("date", _DATE), ("number", _NUMBER)):
        if pattern.search(phrase):
            return kind
    words = [word for word in re.findall(r"[^\W\d_]+", phrase) if word.lower() not in _SMALL]
    return "name" if words and all(word[0].isupper() for word in words) else "phrase"


def is_question(text: str) -> bool:
    """Whether a text asks something: it has a question mark, or begins as questions do.

    >>> [is_question(text) for text in ("who led it", "In which year?", "is it open", "noise of jets", "for whom")]
    [True, True, True, False, True]
    """
    words = _LETTERS.findall(text.lower())
    asks = not english.QUESTION_WORDS.isdisjoint(words[:3])
    return "?" in text or asks or not english.AUXILIARIES.isdisjoint(words[:1])


def is_english(question: str) -> bool:
    """Whether a question is in English, as far as its words tell: names and keywords alone may be.

    One word that only English has is enough: questions name books, and ask what words mean.

    >>> [is_english(text) for text in ("Who led it?", "Wer leitete die Sitzung?", "Tesla birthplace", "Кто он?")]
    [True, False, True, False]
    """
    words = _LETTERS.findall(question.lower())
    if not english.ENGLISH_ONLY.isdisjoint(words):
        return True
    if not english.OTHER_LANGUAGES.isdisjoint(words) or "¿" in question:
        return False
    if len(_OTHER_SCRIPT.findall(question)) * 2 > max(2, sum(map(len, words))):
        return False
    # Words with a capital are names: José, Zürich.
    accented = sum(not word.isascii() for word in _LETTERS.findall(question) if word.islower())
    asks = not english.SHARED_QUESTION_WORDS.isdisjoint(words[:1])
    return sum(word in english.SHARED_WORDS for word in words) + asks + accented < _SHARED


# What people write before a question, and what adds nothing to it.
_PREFACE = re.compile(
    r"(?:(?:hi|hello|hey|please|thanks|quick question|according to (?:the|this) (?:text|document|file)|"
    r"(?:(?:could|can|would|will) you (?:please |kindly )?|please )?(?:tell|show) me|"
    r"do you (?:happen to )?know|i(?: would|['’]d)? (?:like|want|need) to know|"
    r"i(?: was|['’]m| am) wondering)\b(?:[\s,:;.!]|-(?=\s))*)+(?=\w)",
    re.IGNORECASE,
)


def without_preface(question: str) -> str:
    """The question itself, without greetings and polite words before it.

    >>> without_preface("Hi, could you please tell me where the keys are?")
    'where the keys are?'
    >>> without_preface("hi-fi price"), without_preface("hey - who left?")
    ('hi-fi price', 'who left?')
    """
    match = _PREFACE.match(question)
    return question if match is None else question[match.end() :]


# How a question begins that wants yes or no,
_YES_NO = re.compile(
    r"(?:and |but |so )?(?:am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might"
    r"|must)(?:n['’]?t)? \S",
    re.IGNORECASE,
)
# or, after polite words, "tell me if …",
_WHETHER = re.compile(r"(?:if|whether) \S", re.IGNORECASE)
# and the words of one that wants more than that.
_WANTS_MORE = re.compile(r"\b(?:who|whom|whose|what|which|when|where|why|how|or)\b|___", re.IGNORECASE)


def is_yes_no(question: str) -> bool:
    """Whether a question wants yes or no.

    >>> [is_yes_no(text) for text in ("Is smoking allowed?", "Is it red or blue?", "Do you know who left?")]
    [True, False, False]
    """
    question = question.strip()
    plain = without_preface(question)
    begins = _YES_NO.match(plain) or (plain != question and _WHETHER.match(plain))
    return bool(begins) and not _WANTS_MORE.search(plain)


# What a question wants,
_WANTED = {
    "date": re.compile(r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)"),
    "number": re.compile(
        r"\bhow (?:many|much|old|long|far|tall|big|large)\b|\bwhat (?:percent|number|amount)|population"
    ),
    "name": re.compile(
        r"\bwho(?:m|se)?\b|\bwhere\b|\b(?:what|which) (?:city|country|state|town|person|river|island)"
    ),
}
# and the kinds of phrases that fit it, those of `coarse_kind`.
_FITTING = {
    "date": frozenset(("date", "time", "number")),
    "number": frozenset(("number", "money", "date", "time")),
    "name": frozenset(("name", "phrase")),
}


def wanted_kind(question: str) -> str:
    """The kind of answer that a question asks for, if its words say so.

    >>> [wanted_kind(text) for text in ("In which year did it end?", "How many came?", "Who came?", "Why?")]
    ['date', 'number', 'name', '']
    """
    lower = question.lower()
    return next((kind for kind, pattern in _WANTED.items() if pattern.search(lower)), "")


def is_other_kind(wanted: str, text: str) -> bool:
    """Whether a date, a number or a name is wanted, and the text is none.

    >>> is_other_kind("number", "by boat"), is_other_kind("number", "twelve"), is_other_kind("", "twelve")
    (True, False, False)
    """
    return bool(wanted) and coarse_kind(text) not in _FITTING[wanted]


# A number with its separators, or letters and digits with apostrophes between them.
WORD = re.compile(r"\d+(?:[.,'’]\d+)+|\w+(?:['’ʼ]\w+)*")
_APOSTROPHES = str.maketrans("", "", "'’ʼ")
_THOUSANDS = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")


def form_of(word: str) -> str:
    """A word as it is compared: without case, apostrophes and separators of thousands."""
    if word.isascii() and word.isalpha():
        return word.lower()
    plain = _THOUSANDS.sub("", unicodedata.normalize("NFKC", word))
    return plain.casefold().translate(_APOSTROPHES)


def normalised(text: str) -> str:
    """A text as its words, by which equal answers and equal sentences are recognised.

    >>> normalised("The  Tiber."), normalised("the tiber")
    ('the tiber', 'the tiber')
    """
    return " ".join(map(form_of, WORD.findall(text)))
