"""A passage gets the questions of its back-translation whose answers are known: the same ones, and those with none."""

from attar.training.questions.data import Passage, Question, hold_out
from attar.training.questions.translated import with_translated_questions

TEXT = (
    "Ann Lee sold her red boat to three sailors of Dover in 1931, and left for Canada with her sister Maud."
)
AGAIN = (
    "In 1931 Ann Lee sold the red boat to three sailors from Dover and went to Canada with her sister Maud."
)
OTHER = "The mill at Bath burned down in 1875; the miller's daughter Clara rebuilt it of stone with her own money."


def sold() -> Question:
    start = TEXT.index("her red boat")
    return Question("What did Ann Lee sell in 1931?", ((start, start + 12),))


def translated(text: str, article: str) -> Passage:
    asked = (
        Question("What did Ann Lee sell in the year 1931?", labelled=False),
        Question("Why?", labelled=False),
        Question("What did Ann Lee buy in 1931?"),
    )
    return Passage(text, article, asked, ((0, 3),))


def test_questions_move_to_the_same_passage() -> None:
    original = Passage(TEXT, "Boats", (sold(),))
    found, unrelated, back, _ = with_translated_questions(
        [
            original,
            Passage(OTHER, "Mills", (Question("Who?"),)),
            translated(AGAIN, "bt/1"),
            Passage(OTHER, "x"),
        ]
    )
    own, reworded, absent = found.questions
    assert own == sold()
    assert (reworded.text, reworded.answers) == ("What did Ann Lee sell in the year 1931?", sold().answers)
    assert (absent.text, absent.answers, absent.labelled) == ("What did Ann Lee buy in 1931?", (), True)
    assert (found.twin, back.twin) == ("bt/1", "Boats")
    assert (len(unrelated.questions), unrelated.twin) == (1, "")


def test_a_passage_and_its_translation_are_in_the_same_split() -> None:
    pairs = []
    for at in range(12):
        name = f"Person{at} Lee{at} of Town{at}"
        pairs.append(Passage(TEXT.replace("Ann Lee", name), f"Boats {at}", (sold(),)))
        pairs.append(translated(AGAIN.replace("Ann Lee", name), f"bt/{at}"))
    for at, passage in enumerate(pairs):  # no two share 13 words in a row
        pairs[at] = Passage(
            passage.text.replace(" ", f" w{at} "), passage.article, passage.questions, passage.spans
        )
    training, held = hold_out(with_translated_questions(pairs), 0.2)
    assert held
    articles = {passage.article for passage in training}
    assert all(passage.twin and passage.twin not in articles for passage in held)


def test_words_of_many_passages_do_not_count() -> None:
    common = [Passage(f"the town of Bath number{at} again", f"c{at}", (), ((0, 3),)) for at in range(450)]
    original = Passage(TEXT, "Boats", (sold(),))
    found, *_ = with_translated_questions([original, *common, translated(AGAIN, "bt/1")])
    assert found.twin == "bt/1"
