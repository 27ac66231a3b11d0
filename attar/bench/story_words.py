"""What made-up stories are made of: parts of names, and each fact told one way and asked another."""

from typing import NamedTuple


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _parts(
    "Marin Elias Jonah Katrin Torben Belinda Renata Silas Davina Alaric Corin Odette Fabian Gisela Hollis "
    "Isolde Jorin Leona Magnus Nadia Orson Petra Quentin Rosalind Stefan Thora Ulric Verena Wilma Yannick"
)
SURNAME_STARTS = _parts("Ash Bram Cald Dun Fair Gold Hart Kel Lang Mor Nor Pem Rook Stan Thorn Wex Whit Brad")
SURNAME_ENDINGS = _parts("by croft dale field man sen son well wick worth")
TOWN_STARTS = _parts("Oak Lin Kes Brae Mill Sand Pine Clay Elm Fox Glen Heath Iron Lark")
TOWN_ENDINGS = _parts("bury haven mouth stead mere ville port bridge")
COMPANIES = _parts("Veltra Kordex Solvane Mirano Tandrel Quivera Bexon Lumora Parvex Zentra")
COMPANY_KINDS = _parts("Motors Mills Foods Works Lines Labs")


class Relation(NamedTuple):
    """What stands in it, how it is told, and in which other words it is asked for."""

    subject: str
    object: str
    told: tuple[str, ...]
    asked: tuple[str, ...]


RELATIONS = {
    "married": Relation(
        "person",
        "person",
        (
            "{a} and {b} were wed in a small chapel on the hill.",
            "After ten years of friendship {a} said yes to {b} before a cheering crowd.",
            "The wedding of {a} and {b} drew guests from far away.",
        ),
        ("{a} married {b}.", "{a} is the wife or husband of {b}."),
    ),
    "works for": Relation(
        "person",
        "company",
        (
            "Every morning {a} takes the early bus to the office of {b}.",
            "{a} has a desk and a good salary at {b}.",
            "For years {a} has kept the books at {b}.",
        ),
        ("{a} works for {b}.", "{b} is the employer of {a}."),
    ),
    "lives in": Relation(
        "person",
        "town",
        (
            "{a} rents a blue house near the market of {b}.",
            "The neighbours in {b} know {a} as a quiet tenant.",
            "{a} has kept a flat with a garden in {b} since spring.",
        ),
        ("{a} lives in {b}.", "{b} is the home of {a}."),
    ),
    "bought": Relation(
        "company",
        "company",
        (
            "{a} paid a large sum and took over {b} on the last day of the year.",
            "The shares of {b} now belong to {a} after a long deal.",
            "In a surprise deal {b} was swallowed by {a} for cash.",
        ),
        ("{a} bought {b}.", "{a} is the new owner of {b}."),
    ),
    "founded": Relation(
        "person",
        "company",
        (
            "{a} started {b} in a garage with two friends and a loan.",
            "It was {a} who set up {b} with borrowed money.",
            "{b} began as a dream of {a} on a kitchen table.",
        ),
        ("{a} founded {b}.", "{a} is the founder of {b}."),
    ),
    "visited": Relation(
        "person",
        "town",
        (
            "Last week {a} spent three days as a guest in {b}.",
            "{a} took the train to {b} for a short holiday.",
            "Tourists in {b} were glad to see {a} among them.",
        ),
        ("{a} visited {b}.", "{a} made a trip to {b}."),
    ),
    "taught": Relation(
        "person",
        "person",
        (
            "{a} gave {b} lessons in the evening without pay.",
            "As a pupil {b} learned everything from {a} at the village school.",
            "{a} showed {b} how to play the violin years ago.",
        ),
        ("{a} taught {b}.", "{a} was the teacher of {b}."),
    ),
    "sued": Relation(
        "company",
        "person",
        (
            "Lawyers of {a} dragged {b} before a judge over a broken promise.",
            "A court must now decide what {b} owes {a} in damages.",
            "{a} filed a complaint against {b} about stolen plans.",
        ),
        ("{a} sued {b}.", "{a} went to court against {b}."),
    ),
}
OPENINGS = (
    "It was a busy week for the local paper.",
    "There is much news from the valley today.",
    "Our reporter has spoken with many people this week.",
    "Some stories of this autumn are worth telling.",
)
REMARKS = (
    "{a} would not say more about it.",
    "Friends say that {a} is happy with how things went.",
    "When asked by our reporter {a} only smiled.",
    "Nobody was more surprised than {a} by the news.",
    "A letter from {a} reached this paper a day later.",
)
FILLERS = (
    "The weather stayed cold and dry.",
    "Prices at the market rose a little.",
    "The old bridge will be closed for repairs.",
    "Many readers wrote to ask for more.",
    "The harvest was better than last year.",
    "Nothing else was heard for some days.",
)
CLOSINGS = (
    "More will follow in the next issue.",
    "That is all for this week.",
    "We shall write again when we know more.",
)
