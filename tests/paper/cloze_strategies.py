"""Random cloze documents over a few words and names."""

from dataclasses import replace

from hypothesis import strategies as st

from attar.paper.cloze import ClozeDocument, Question, entity_number
from attar.paper.words import Vocabulary

FEW_WORDS = Vocabulary(("met", "in", "the", "house", "."), entities=8)
names = st.sampled_from([1, 4, 6, 7])
tokens = st.sampled_from(["met", "in", "the", "."]) | names.map("@entity{}".format)
questions = st.builds(
    lambda before, after, answer: Question((*before, "@placeholder", *after), answer),
    st.lists(tokens, max_size=3),
    st.lists(tokens, max_size=3),
    names,
)
documents = st.builds(
    lambda source, sentences, asked: ClozeDocument("", source, sentences, {}, asked),
    st.sampled_from(["novels", "news"]),
    st.lists(st.lists(tokens, min_size=1, max_size=12), max_size=20),
    st.lists(questions, max_size=3),
)


def renumbered(document: ClozeDocument) -> ClozeDocument:
    """The document with its names numbered 0, 1, … in the order of their numbers."""
    rows = [*document.sentences, *(question.tokens for question in document.questions)]
    numbers = {entity_number(token) for row in rows for token in row} - {None}
    order = sorted(numbers | {question.answer for question in document.questions})
    renamed = {f"@entity{number}": f"@entity{place}" for place, number in enumerate(order)}
    return replace(
        document,
        sentences=[[renamed.get(token, token) for token in sentence] for sentence in document.sentences],
        questions=[
            Question(tuple(renamed.get(token, token) for token in q.tokens), order.index(q.answer))
            for q in document.questions
        ],
    )
