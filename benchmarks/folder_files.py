"""The folders of made-up files of many kinds: a theatre's, a landlord's and a veterinary practice's.

They are in `questions/folder-2`, `folder-3` and `folder-4`. Nothing in them is written in Python:
`rota.xlsx.json` has the arguments of the function that makes `rota.xlsx`, `letter.docx.txt` is the text of
`letter.docx`, and a folder `papers.zip` has the files of the archive.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.document_files import docx_of, epub_of, html_of, pdf_of, pdf_table_of, tar_of, xlsx_of, zip_of
from benchmarks.firm_files import attached
from benchmarks.office_files import msg_of, odp_of, ods_of, odt_of, pptx_of, rtf_of


def _pdf(**content: Any) -> bytes:
    return pdf_table_of(**content) if "rows" in content else pdf_of(**content)


def _page(text: str) -> bytes:
    return html_of(text, title="Tallow Lane Theatre", around=True)


def _msg(attached: Mapping[str, str], **content: Any) -> bytes:
    return msg_of(**content, attached={name: text.encode() for name, text in attached.items()})


def _mail(files: dict[str, bytes]) -> bytes:
    mail = files.pop("message.eml")
    for name, data in files.items():
        mail = attached(mail, name, data)
    return mail


_OF_TEXT: dict[str, Callable[[str], bytes]] = {
    ".docx": docx_of, ".odt": odt_of, ".rtf": rtf_of, ".html": _page, ".xhtml": html_of,
}  # fmt: skip
_OF_JSON: dict[str, Callable[..., bytes]] = {
    ".docx": docx_of, ".xlsx": xlsx_of, ".ods": ods_of, ".pdf": _pdf, ".pptx": pptx_of, ".odp": odp_of,
    ".epub": epub_of, ".msg": _msg, ".html": html_of,
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


def make_folder(folder: Path, source: Path) -> int:
    """Write the files of a folder such as `questions/folder-2/files`; returns their number."""
    files = files_of(source)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len(files)
