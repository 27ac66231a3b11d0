"""What a text says above a sentence: its title, and the heading of the part that the sentence stands in."""

import re

# A heading is a short line of its own. So far above a sentence one is looked for.
_LONGEST, _FARTHEST = 80, 4_000
_ENDS = re.compile(r"[.!?,;…][\"'”’)\]]*\Z")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
# What stands around a heading in plain text: "## Work", "Work\n====", "*Work*".
_RULE = re.compile(r"[=\-~^\"'#*+_.\s]*")
_MARKS = "#*=_ \t"
_ITEM = re.compile(r"[-–—•*▪◦‣·+]\s|\(?\w{1,3}[.)]\s")
_FOLDER = re.compile(r".*[/\\]", re.DOTALL)
_ENDING = re.compile(r"\.[A-Za-z]\w{0,4}\Z")


def headings_above(text: str, start: int, name: str = "") -> list[str]:
    r"""The name of a document, its title, and the heading above a sentence that begins at `start`.

    >>> text = "Ann Lee\n\nWORK\n2021: nurse\n2014: cook\n\nOTHER\nDrives: yes"
    >>> headings_above(text, text.index("2014"), "staff/CV Ann.docx"), headings_above(text, 0)
    (['CV Ann', 'Ann Lee', 'WORK'], [])
    """
    found = [_FOLDER.sub("", _ENDING.sub("", name))] if name else []
    paragraphs = _paragraphs(text[max(0, start - _FARTHEST) : start])
    if start > _FARTHEST:
        del paragraphs[:1]
        first = text[: _LONGEST + 1].lstrip().split("\n")[0]
    else:
        first = paragraphs[0][0] if paragraphs else ""
    own = text[max(text.rfind("\n", 0, start) + 1, start - _LONGEST) : start + 1]
    if _is_heading(first):
        found.append(_plain(first))
    heading = _nearest(paragraphs, own)
    if heading and _plain(heading) not in found:
        found.append(_plain(heading))
    return found


def _paragraphs(text: str) -> list[list[str]]:
    """The lines of each paragraph, without lines that are only drawn."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if not _RULE.fullmatch(line)]
        if lines:
            found.append(lines)
    if text.endswith("\n\n"):
        found.append([])
    return found


def _nearest(paragraphs: list[list[str]], own: str) -> str:
    """The last heading: a line alone, or one in a paragraph, in capitals or less indented than what follows."""
    for at in range(len(paragraphs) - 1, -1, -1):
        lines, is_own = paragraphs[at], at == len(paragraphs) - 1
        if is_own:
            above = [line for line in lines if _leads(line, own)]
            if above:
                return above[-1]
        elif lines and _is_heading(lines[0]) and (not lines[1:] or lines[0].isupper()):
            before = paragraphs[at - 1] if at else []
            # Of several such lines the first is the heading, and the others are what it lists.
            if lines[0].isupper() or len(before) != 1 or not _is_heading(before[0]) or at == 1:
                return lines[0]
    return ""


def _leads(line: str, below: str) -> bool:
    """Whether a line above another one is its heading."""
    return _is_heading(line) and (line.isupper() or _indent(below) > _indent(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_heading(line: str) -> bool:
    line = line.strip()
    if len(line) > _LONGEST or _ENDS.search(line) or _ITEM.match(line):
        return False
    is_label = ": " in line and not line.startswith("#")
    return not is_label and len(_LETTER.findall(line)) > len(_DIGIT.findall(line))


def _plain(line: str) -> str:
    return " ".join(line.strip(_MARKS).split())
