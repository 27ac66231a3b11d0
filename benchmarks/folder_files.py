"""Folders of made-up files of many kinds, and forms as text, DOCX and PDF: `questions/folder-1` to `folder-7`.

Nothing in them is written in Python: `rota.xlsx.json` has the arguments of the function that makes `rota.xlsx`,
`letter.docx.txt` is the text of `letter.docx`, and a folder `papers.zip` has the files of the archive. Of a form there
is the text, or a JSON file with its lines and its table.
"""

import json
from collections.abc import Callable, Mapping
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

from benchmarks.stories import tell_stories
from tests.documents.document_files import (
    docx_of,
    epub_of,
    html_of,
    pdf_of,
    pdf_table_of,
    tar_of,
    xlsx_of,
    zip_of,
)
from tests.documents.office_files import msg_of, odp_of, ods_of, odt_of, picture_of, pptx_of, rtf_of

# What programs leave behind in a folder, and nobody wants to read.
_LEFT_BEHIND = {
    "staff/~$ndbook.docx": b"\x05Noor" + bytes(157),
    "scans/Thumbs.db": bytes(512),
    ".DS_Store": b"Bud1",
}


def _pdf(**content: Any) -> bytes:
    make = picture_of if "lines" in content else pdf_table_of if "rows" in content else pdf_of
    return make(**content)


def _page(text: str) -> bytes:
    return html_of(text, title="Tallow Lane Theatre", around=True)


def _msg(attached: Mapping[str, str], **content: Any) -> bytes:
    return msg_of(**content, attached={name: text.encode() for name, text in attached.items()})


def _mail(files: dict[str, bytes]) -> bytes:
    """The e-mail `message.eml` with the other files, which are PDF, attached."""
    message = message_from_bytes(files.pop("message.eml"), policy=policy.default)
    for name, data in files.items():
        message.add_attachment(data, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


_OF_TEXT: dict[str, Callable[[str], bytes]] = {
    ".docx": docx_of, ".odt": odt_of, ".rtf": rtf_of, ".html": _page, ".xhtml": html_of,
}  # fmt: skip
_OF_JSON: dict[str, Callable[..., bytes]] = {
    ".docx": docx_of, ".xlsx": xlsx_of, ".ods": ods_of, ".pdf": _pdf, ".pptx": pptx_of, ".odp": odp_of,
    ".epub": epub_of, ".msg": _msg, ".html": html_of, ".xhtml": html_of, ".png": picture_of,
}  # fmt: skip
_OF_FILES: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    ".zip": zip_of, ".gz": lambda files: tar_of(files, "gz"), ".eml": _mail,
}  # fmt: skip


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder of texts and arguments, made, by their paths."""
    made: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        kind = Path(path.stem).suffix
        if path.is_dir():
            files = files_of(path)
            pack = _OF_FILES.get(path.suffix)
            made |= (
                {path.name: pack(files)} if pack else {f"{path.name}/{name}": files[name] for name in files}
            )
        elif path.suffix == ".txt" and kind in _OF_TEXT:
            made[path.stem] = _OF_TEXT[kind](path.read_text(encoding="utf-8").rstrip("\n"))
        elif path.suffix == ".json" and kind in _OF_JSON:
            made[path.stem] = _OF_JSON[kind](**json.loads(path.read_bytes()))
        else:
            made[path.name] = path.read_bytes()
    return made


def make_folder(folder: Path, source: Path, novel: str | None = None) -> int:
    """Write the files of a folder such as `questions/folder-2/files`; returns their number.

    With a novel come also the files that programs leave behind, which do not count.
    """
    files = files_of(source)
    others: dict[str, bytes] = {}
    if novel is not None:
        files["reading/novel.txt"] = novel.encode()
        others = _LEFT_BEHIND
    for name, data in (files | others).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len(files)


def made_up_novel(words: int = 25_000) -> str:
    """Made-up stories, as long as a short novel."""
    chapters: list[str] = []
    count = 0
    for number, story in enumerate(tell_stories(11, 10_000), 1):
        if count > words:
            break
        chapters.append(f"CHAPTER {number}\n\n{story.text}")
        count += len(story.text.split())
    return "\n\n".join(chapters)


def forms_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """The forms of a folder such as `questions/folder-2/forms`, as each kind of file that people have of them."""
    return {
        path.stem: _as_typed(path) if path.suffix == ".txt" else _with_table(**json.loads(path.read_bytes()))
        for path in sorted(folder.iterdir())
    }


def _as_typed(path: Path) -> dict[str, bytes]:
    text = path.read_bytes().decode()
    return {"txt": text.encode(), "docx": docx_of(text), "pdf": _typed(text)}


def _with_table(
    title: str, lines: list[str], table: list[list[str]], after: list[str], heading: tuple[str, ...] = ()
) -> dict[str, bytes]:
    widths = [max(map(len, column)) + 3 for column in zip(*table, strict=True)]
    rows = [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]
    return {
        "txt": ("\n".join([*heading, *lines, "", *rows, "", *after]) + "\n").encode(),
        "docx": docx_of("\n\n".join([f"# {title}", *lines, *after]), table=table),
        "pdf": pdf_table_of(title, lines, table, after),
    }


def _typed(text: str) -> bytes:
    """A PDF file with the lines of a text, in a font of equal widths."""
    from fpdf import FPDF
    from fpdf.enums import XPos, YPos

    file = FPDF()
    file.set_font("courier", size=10)
    file.add_page()
    for line in text.split("\n"):
        file.cell(0, 5, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(file.output())
