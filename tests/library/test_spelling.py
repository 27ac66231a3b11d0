"""Numbers and names that a query writes in another way than the documents: they are found, in asking and searching."""

import pytest

from attar.library import finding

from .conftest import library_of

pytestmark = pytest.mark.slow

TEXTS = {
    "boat": "The boat costs 1,610 pounds. It is painted blue.",
    "van": "The van was sold for 24500 pounds in spring.",
    "travel": "Priya Raman books all journeys of the firm. She sits next to the stairs.",
    "tools": "Desmond Achebe keeps the keys of the shed. The tools hang on the wall.",
    "tea": "Tea is made from the leaves of a plant. It was first drunk in China.",
    "salt": "Salt is mined near Salzburg. It was traded for centuries.",
    "kitchen": "The kitchen is cleaned on Fridays by everybody in turn.",
    "heating": "The heating was repaired in February by a firm from Bath.",
    "garden": "The garden has three apple trees and a wall of brick.",
}


library = library_of(TEXTS)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("1610 pounds", "boat"),
        ("1,610 pounds", "boat"),
        ("24,500 pounds", "van"),
        ("24500", "van"),
        ("24,500", "van"),
        ("Priya Ramen", "travel"),
        ("Raamn journeys", "travel"),
        ("Desmond Acheve", "tools"),
    ],
)
def test_search_finds_the_document(library, query, name):
    assert library.search(query)[0].document == name


@pytest.mark.parametrize(
    ("question", "answer"), [("What does Priya Ramen book?", "travel"), ("What costs 1610 pounds?", "boat")]
)
def test_asking_finds_the_document(library, question, answer):
    found = library.ask_all(question)
    assert next(each.document for each in found if not each.absent) == answer


def test_the_ranking_of_ordinary_queries_is_the_same_bit_for_bit(library, monkeypatch):
    queries = ["Who keeps the keys of the shed?", "mining salt", "When was the heating repaired?"]
    with library.opened() as shard:
        before = finding.find_candidates(shard.alone, queries, 9)
        monkeypatch.setattr(
            finding, "_other_spellings", lambda each_shard, texts, corpora: [[] for _ in texts]
        )
        assert finding.find_candidates(shard.alone, queries, 9) == before


def test_a_query_of_a_thousand_unknown_words_is_answered(library):
    assert library.search(
        " ".join(f"qwerty{chr(97 + at % 26)}zx{chr(97 + at // 26 % 26)}" for at in range(700))
    )
