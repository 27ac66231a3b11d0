"""A long story among letters: it does not attract questions that it does not answer. With the reader that ships."""

import pytest

from benchmarks.stories import tell_stories

from .conftest import library_of

pytestmark = pytest.mark.slow

LETTERS = {
    "landlord": "From 1 March the rent of the flat is 865 pounds a month. The heating will be repaired by Mr Hobbs.",
    "minutes": "The club meets in the library on Monday. Priya Raman books the journeys of the club.",
    "crane": "The crane was inspected by Rowena Pike. The inspection cost 520 pounds.",
    "trip": "The cabin is on the island of Skye and costs 214 euros. Tobias brings the music.",
    "garden": "The garden has three apple trees. They were planted in 1987 by Walter Quill.",
}
QUESTIONS = {
    "How much is the rent?": "landlord",
    "Who repairs the heating?": "landlord",
    "Who books the journeys of the club?": "minutes",
    "Who inspected the crane?": "crane",
    "Who brings the music?": "trip",
    "When were the apple trees planted?": "garden",
}


library = library_of(LETTERS)


def best(library, question):
    return next(answer for answer in library.ask_all(question) if not answer.absent)


STORY = "\n\n".join(
    f"CHAPTER {number}\n\n{story.text}" for number, story in enumerate(tell_stories(7, 40), 1)
)
SMALL = {"tea": "Tea was first drunk in China.", "salt": "Salt is mined.", "note": "Buy milk and bread."}


@pytest.mark.parametrize("others", [{"story": STORY}, SMALL], ids=["a long story", "a few small files"])
def test_other_documents_change_no_answer_of_the_letters(library, others):
    before = {question: best(library, question) for question in QUESTIONS}
    library.add_many(others.items())
    after = {question: best(library, question) for question in QUESTIONS}
    library.remove(*others)
    assert [answer.text for answer in after.values()] == [answer.text for answer in before.values()]
    for answers in (before, after):
        assert {question: answer.document for question, answer in answers.items()} == QUESTIONS


def test_a_long_story_still_answers_what_only_it_says(library):
    question = "Who has kept the lighthouse of Skerrow since 1978?"
    told = "Odalys Brandt has kept the lighthouse of Skerrow since 1978."
    library.add("story", "\n\n".join([*(story.text for story in tell_stories(7, 20)), told]))
    found = library.ask_all(question)
    library.remove("story")
    assert "Odalys Brandt" in [answer.text for answer in found if answer.document == "story"]
