"""Random cloze documents over a few words and names, and documents as `.question` files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from attar.paper.cloze import ClozeDocument, count_names, entity_number
from attar.paper.words import Vocabulary

FEW_WORDS = Vocabulary(("met", "in", "the", "house", "."), entities=8)
names = st.sampled_from([1, 4, 6, 7])
tokens = st.sampled_from(["met", "in", "the", "."]) | names.map("@entity{}".format)
asked = st.tuples(
    st.builds(
        lambda before, after: " ".join([*before, "@placeholder", *after]),
        st.lists(tokens, max_size=3),
        st.lists(tokens, max_size=3),
    ),
    names,
)
documents = st.builds(
    lambda source, sentences, pairs: ClozeDocument(
        "",
        source,
        [" ".join(each) for each in sentences],
        [],
        [],
        [q for q, _ in pairs],
        [a for _, a in pairs],
    ),
    st.sampled_from(["novels", "news"]),
    st.lists(st.lists(tokens, min_size=1, max_size=12), max_size=20),
    st.lists(asked, max_size=3),
)


def write_folder(documents: Iterable[ClozeDocument], folder: Path) -> int:
    """Write documents as `.question` files, one per question; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for document in documents:
        text = " ".join(document.sentences)
        numbered = zip(document.name_ids, document.names, strict=True)
        names = "\n".join(f"@entity{number}:{name}" for number, name in numbered)
        for question, answer in zip(document.questions, document.answers, strict=True):
            blocks = (document.name, text, question, f"@entity{answer}", names)
            files.append("\n\n".join(blocks).encode())
    for data in files:
        (folder / f"{hashlib.sha256(data).hexdigest()}.question").write_bytes(data)
    return len(files)


def most_frequent_name(document: ClozeDocument, excluded: Iterable[str] = ()) -> int | None:
    """The name that occurs most often (the first of equals), except those among `excluded` tokens.

    >>> document = ClozeDocument("a", "", ["@entity1 met @entity0", "@entity1 left"], [], [])
    >>> most_frequent_name(document), most_frequent_name(document, ["did", "@entity1", "leave"])
    (1, 0)
    """
    counts = count_names(document.sentences)
    for token in excluded:
        counts.pop(entity_number(token), None)  # type: ignore[arg-type]
    return max(counts, key=counts.__getitem__, default=None)
