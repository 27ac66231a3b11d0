"""Texts and files that a careless step takes quadratic time for, by their length in characters."""

from collections.abc import Callable

TEXTS: dict[str, Callable[[int], str]] = {
    "combining marks": lambda n: "a" + "\u0301" * (n // 2) + "\u0316" * (n // 2),
    "no spaces": lambda n: "a" * n,
    "dots": lambda n: "." * n,
    "newlines": lambda n: "a" + "\n" * n + "b",
    "spaces": lambda n: "a" + " " * n + "b",
    "one sentence": lambda n: "word " * (n // 5),
    "many sentences": lambda n: "A b. " * (n // 5),
    "many paragraphs": lambda n: "Ab\n\n" * (n // 4),
    "unclosed quotes": lambda n: '"Ann ' * (n // 5),
    "unclosed brackets": lambda n: "([" * (n // 2),
    "hyphens": lambda n: "a-" * (n // 2),
    "digits": lambda n: "1," * (n // 2),
    "initials": lambda n: "a." * (n // 2),
    "joined emoji": lambda n: "👩\u200d👧" * (n // 3),
}
MARKUP: dict[str, Callable[[int], tuple[str, str]]] = {
    "log in columns": lambda n: ("a.txt", "12:00:03  INFO  worker 7  met Ann\n" * (n // 34)),
    "words in columns": lambda n: ("a.txt", "dog  noun  Hund\n" * (n // 16)),
    "comments in Markdown": lambda n: ("a.md", "<div>" + "<!--" * (n // 4)),
    "brackets in Markdown": lambda n: ("a.md", "[" * (n // 8)),
    "links in Markdown": lambda n: ("a.md", "[a](b" * (n // 16)),
    "stars in Markdown": lambda n: ("a.md", "*a_ " * (n // 16)),
    "backticks in Markdown": lambda n: ("a.md", "`a" * (n // 16)),
    "comments in HTML": lambda n: ("a.html", "<p>a" + "<!--" * (n // 4)),
    "unclosed tags": lambda n: ("a.html", "<p>a" + "<b>" * (n // 3)),
    "angle brackets": lambda n: ("a.html", "<p>a" + "<" * n),
    "nested links": lambda n: ("a.html", "<div><a href=x>y</a>" * min(n // 80, 2_000) + "a " * (n // 4)),
    "parameters of a contact": lambda n: ("a.vcf", "BEGIN:VCARD\nTEL" + ";" * n + "\nTEL:1\nEND:VCARD"),
    "keys of rows": lambda n: ("a.json", "[" + ",".join(f'{{"k{at}":1}}' for at in range(n // 12)) + "]"),
    "quotes in CSV": lambda n: ("a.csv", 'a,b\n"' + '""' * (n // 2) + '",c'),
    "encoded words": lambda n: ("a.eml", "From: a\nSubject: " + "=?utf-8?q?a?= " * (n // 14) + "\n\nhi"),
    "quoted lines": lambda n: ("a.eml", "From: a\n\n" + "> " * (n // 2) + "hi"),
}
