"""Lines: of a form or list each is a sentence of its own, those of wrapped prose are joined."""

import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attar.text.sentences import begins_anew, sentence_spans


def lines(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Invoice number: 2291\nInvoice date: 3 May\nCustomer: Ann Lee",
        "Present: Ann, Bob\n\nNext meeting: Monday 27 October\nPlace: the hall",
        "name: Ann\nage: 34\ntown: Hull",
        "SKILLS\nAutoCAD, QGIS, planting design",
        "Decisions\nThe yard is closed on Monday.",
        "Spanish (native)\nEnglish (fluent)\nPortuguese (good)",
        "Ann Lee\nManaging Director\nThe Quay, Wexcombe",
        "- Paint the sign dark blue\n- Ask the port again about dredging",
        "1. Press the button\n2. Call the office\n3. Leave the building",
        "• the first\n• the second",
        "2022 - today    Senior architect, Ebbworth City Council\n                Manages a team of six",
        "23 Fuller's Lane, Ebbworth\n07700 900672\nann@example.net\nwww.example.net",
        "Subtotal    688.50\nVAT 20%     137.70\nTotal due   826.20",
        "Pot of tea .................... 2.90\nCoffee ........................ 3.20",
        "2026-01-14 09:20 Ann cut her thumb\n2026-02-03 15:45 Bob slipped on the ice",
        "Remarks: no substitutes without asking\nApproved by: Julian Ferreira",
        "EXPERIENCE\nI worked for the council for many years in several places, and learned how",
    ],
    ids=lambda text: text.split("\n")[0],
)
def test_lines_of_forms_and_lists_are_sentences_of_their_own(text: str) -> None:
    assert lines(text) == [" ".join(line.split()) for line in text.split("\n") if line.strip()]


PROSE = [
    "The auditors come on 22 April and not on the 15th, as Helen Marsh told me on the telephone, and they need the "
    "stock list of December and all receipts for fuel.",
    "At low water on Sunday we measured only 1.4 metres at the second beacon, which is forty centimetres less than in "
    "October, when Captain Orde and Miss Achterberg of Saltmere Harbour came with Desmond Achebe.",
    "In the Name of God and of King George, by whose leave the Governor of Barbados Sir Thomas Robinson, with Lady "
    "Robinson, was at Kensington Palace for the Feast of Saint Michael.",
    "Tickets can be had from Ruth Adler, 0117 496 0182, or at the door of the Town Hall on Market Street.",
]


@pytest.mark.parametrize("width", [60, 66, 72, 78])
@pytest.mark.parametrize("text", PROSE, ids=lambda text: text[:20])
def test_wrapped_prose_is_joined(text: str, width: int) -> None:
    assert lines(textwrap.fill(text, width)) == [text]


@pytest.mark.parametrize("width", [60, 72])
def test_wrapped_prose_is_joined_in_the_middle_of_a_paragraph(width: int) -> None:
    wrapped = textwrap.fill(" ".join(PROSE), width)
    assert lines(wrapped) == PROSE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear Ruth,\nthank you for the parcel.", ["Dear Ruth, thank you for the parcel."]),
        ("The rent of the house is\n1,350 pounds.", ["The rent of the house is 1,350 pounds."]),
        ("a line\nbroken by the page", ["a line broken by the page"]),
        (
            "Bill to:          Invoice number: LP-20418\nThistledown School      Due date: 2 June",
            ["Bill to:", "Invoice number: LP-20418", "Thistledown School", "Due date: 2 June"],
        ),
        (
            "Present: Philippa Strand, Bridget Oyelaran, Callum Frith\nApologies: Noor Hadley.",
            ["Present: Philippa Strand, Bridget Oyelaran, Callum Frith", "Apologies: Noor Hadley."],
        ),
        (
            "I could have told them all of this morning, said\nAlice a little timidly: but I\ncannot go back.",
            [
                "I could have told them all of this morning, said Alice a little timidly: but I cannot go back."
            ],
        ),
        (
            "They wrote to your French friend,\nM. Chauvelin.",
            ["They wrote to your French friend, M. Chauvelin."],
        ),
        ("He waited.... and left.", ["He waited.... and left."]),
    ],
)
def test_other_lines(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


words = st.sampled_from(
    ["He", "left", "Ann.", "the", "of", "Total:", "5", "-", "end,", "\n", "\n  ", "\n\n", "    ", "\t", "Lee"]
)
texts = st.lists(words, max_size=30).map(" ".join)


@given(texts)
@example("\t 5 \n   Lee end,")
def test_a_text_that_begins_anew_in_another_is_cut_into_the_same_sentences(text: str) -> None:
    """So a document can be extended: its last window is cut again without what is before it."""
    spans = list(sentence_spans(text))
    for at, (start, _) in enumerate(spans):
        if begins_anew(text, start):
            assert [(a + start, b + start) for a, b in sentence_spans(text[start:])] == spans[at:]
