"""Made-up stories are coherent, seeded, and marked as the finder of names would mark them."""

from attar.cloze.documents import count_names
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, mark_names
from attar.text.tokens import iterate_sentences
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import story_document, tell_stories, tell_story

STORIES = list(tell_stories(seed=1, count=200))


def test_the_same_seed_tells_the_same_story() -> None:
    assert tell_story(5) == tell_story(5)
    assert len({story.text for story in STORIES}) == len(STORIES)


def test_stories_are_short_and_state_every_fact() -> None:
    for story in STORIES:
        assert 8 <= len(list(iterate_sentences(story.text))) <= 30
        for fact in story.facts:
            assert fact.subject in story.text
            assert fact.object in story.text


def test_every_question_has_one_blank_and_one_right_answer() -> None:
    for story in STORIES:
        assert len(story.questions) == len(story.facts)
        for (question, answer), fact in zip(story.questions, story.facts, strict=True):
            assert question.count("___") == 1
            assert question.replace("___", answer) not in story.text
            assert answer in (fact.subject, fact.object)
        for relation in {fact.relation for fact in story.facts}:
            facts = [fact for fact in story.facts if fact.relation == relation]
            ends = [end for fact in facts for end in (fact.subject, fact.object)]
            assert len(ends) == len(set(ends))


def test_documents_hold_their_answers() -> None:
    for number, story in enumerate(STORIES):
        document = story_document(story, f"story {number}")
        assert sorted(document.names.values()) == sorted(story.names)
        for question, (_, answer) in zip(document.questions, story.questions, strict=True):
            assert question.tokens.count("@placeholder") == 1
            assert document.names[question.answer] == answer
            assert count_names(document.sentences)[question.answer] > 0


def test_ids_do_not_follow_the_order_of_reading() -> None:
    firsts = {
        next(iter(count_names(story_document(story, str(n)).sentences))) for n, story in enumerate(STORIES)
    }
    assert len(firsts) > 5


def test_the_finder_finds_the_same_names() -> None:
    finder = CapitalFinder(Vocabulary.build(story.text for story in STORIES))
    for story in STORIES:
        table = NameTable()
        list(mark_names(iterate_sentences(story.text), table, finder))
        assert table.names == list(story.names)
