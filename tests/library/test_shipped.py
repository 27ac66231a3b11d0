"""The readers of the package on a letter: real questions, quotes, and stores that choose their reader."""

import pytest

from attar.library.library import Library
from attar.memory.memory import Memory
from attar.store.records import DocumentEntry, Record

pytestmark = pytest.mark.slow

LETTER = """Dear Margaret,

Thank you for your letter of 3 March. We arrived in Lisbon on Tuesday evening, after a train journey of nineteen \
hours. The hotel is owned by Teresa Almeida, a retired dentist who keeps two parrots in the kitchen. A room costs \
85 euros per night, and breakfast is served at 7:30.

Yesterday Henry gave a silver watch to Paulo, a young waiter. On Friday we travel to Porto by bus, because the \
railway workers are on strike. My brother Edmund will meet us there. He has worked as an engineer at the harbour \
since 1998.

Your loving sister,
Clara"""


@pytest.fixture(scope="module")
def memory(shipped) -> Memory:
    return shipped.read(LETTER)


@pytest.fixture
def library(shipped, memory, tmp_path):
    with Library(tmp_path / "library", shipped) as library:
        with library.store.transaction() as changes:
            changes.put(Record.of(DocumentEntry(name="letter"), memory, text=LETTER), reader=memory.reader)
        yield library


def test_copies_with_changes_are_other_places_and_as_likely(library):
    question = "Who owns the hotel?"
    (before,) = library.list_answers(question)
    library.add("b", LETTER.replace("Dear Margaret", "My dear Margaret"))
    library.add("c", LETTER.replace("Clara", "Clara and Jim").replace("Dear", "Dearest"))
    (after,) = library.list_answers(question)
    assert {place.document for place in after.places} == {"letter", "b", "c"}
    assert {place.probability for place in after.places} == {after.probability}
    best = library.ask_all(question)[0]
    assert (best.text, after.text) == ("Teresa Almeida", "Teresa Almeida")
    # Which of the three ranks first, and answers, depends on all of them.
    assert max(best.probability, after.probability) < before.probability + 0.01


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("When did they arrive in Lisbon?", "Tuesday evening", "date"),
        ("How long was the train journey?", "nineteen hours", "number"),
        ("Who owns the hotel?", "Teresa Almeida", "person"),
        ("How much does a room cost?", "85 euros", "money"),
        ("When is breakfast served?", "7:30", "time"),
        ("How many parrots does Teresa keep?", "two", "number"),
        ("Where will they travel on Friday?", "Porto", "place"),
        ("Why do they travel by bus?", "because the railway workers are on strike", "phrase"),
        ("What is Edmund's job?", "engineer", "phrase"),
        ("Since when has Edmund worked at the harbour?", "1998", "date"),
        ("What did Henry give to Paulo?", "a silver watch", "phrase"),
        ("Who is the president of France?", "", "none"),
        ("What is the capital of Norway?", "", "none"),
    ],
)
def test_it_answers_questions_on_a_letter(library, question, answer, kind):
    best = library.ask("letter", question)[0]
    assert (best.text, best.kind) == (answer, kind)
    assert best.probability > (0.2 if answer else 0.5)  # half of what was calibrated with has no answer
    if answer:
        assert LETTER[best.start : best.end] == answer
        assert answer in best.quote
        assert best.quote in LETTER


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wer leitete die Sitzung?", ""),
        ("Combien de membres sont venus ?", ""),
        ("How much was the Rasenmäher?", "350 Euro"),
    ],
)
def test_a_text_in_another_language_answers_english_questions_only(shipped, question, answer):
    german = (
        "Die Sitzung fand am 4. März 2025 im Gemeindehaus in Aschfurt statt. Maria Lopez leitete sie. "
        "Der Verein kaufte einen neuen Rasenmäher für 350 Euro."
    )
    first, second = shipped.answer(shipped.read(german), question, top=2)
    assert (first.text, first.absent) == (answer, not answer)
    assert answer or second.probability < 0.25


def test_answers_have_no_quotes_if_the_text_is_not_kept(shipped, tmp_path):
    with Library(tmp_path / "library", shipped, keep_text=False) as library:
        library.add("letter", LETTER)
        best = library.ask("letter", "Who owns the hotel?")[0]
        assert (best.text, best.quote) == ("Teresa Almeida", None)
        assert LETTER[best.start : best.end] == best.text
        assert library.show("letter").text is None
