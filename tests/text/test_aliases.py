"""Different spellings of a name get one id, decided by the text read so far."""

import pytest

from attar.text.name_table import NameTable


def learn(*names: str) -> list[int | None]:
    table = NameTable()
    return [table.learn(name.split()) for name in names]


@pytest.mark.parametrize(
    ("longer", "shorter"),
    [
        ("Paul Abraham Dukas", "Paul Dukas"),
        ("John F. Kennedy", "John Kennedy"),
        ("Ludwig van Beethoven", "Ludwig Beethoven"),
        ("Edward Davis Wood Jr.", "Edward Wood"),
        ("United States", "U.S."),
        ("United States of America", "USA"),
        ("National Basketball Association", "NBA"),
        ("Federal Bureau of Investigation", "F.B.I."),
        ("New Hampshire", "NH"),
        ("Academy Awards", "Academy Award"),
        ("Super Bowls", "Super Bowl"),
        ("Reformed Churches", "Reformed Church"),
        ("Independent Counties", "Independent County"),
    ],
)
def test_two_spellings_are_one_name_in_either_order(longer: str, shorter: str) -> None:
    for names in ((longer, shorter, longer, shorter), (shorter, longer, shorter, longer)):
        table = NameTable()
        assert [table.learn(name.split()) for name in names] == [0, 0, 0, 0]
        assert table.names == [longer]


def test_initials_with_and_without_dots_are_one_name() -> None:
    assert learn("U.S.", "US", "USA", "U.K.", "UK", "N.B.A.", "NBA") == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("longer", "other"),
    [
        ("Elvis Presley", "EP"),
        ("American Dental Association", "Ada"),
        ("United States Army", "USA"),
        ("Universal Studios", "U.S."),
        ("Dover College", "D.C."),
        ("Robbie Williams", "Robbie William"),
        ("Supporting Film Actor", "Supporting Actor"),
        ("John Kennedy Jr.", "John Kennedy"),
        ("J. Edgar Hoover", "J. Hoover"),
    ],
)
def test_two_similar_names_stay_two(longer: str, other: str) -> None:
    assert learn(longer, other) == [0, 1]
    assert learn(other, longer) == [0, 1]


def test_a_short_form_that_fits_two_names_is_a_third_name() -> None:
    assert learn("John Quincy Adams", "John Francis Adams", "John Adams") == [0, 1, 2]
    assert learn("Arena Football League", "American Football League", "AFL") == [0, 1, 2]


def test_a_second_middle_name_is_another_person() -> None:
    assert learn("John Adams", "John Quincy Adams", "John Francis Adams", "John Adams") == [0, 0, 1, 0]


def test_initials_keep_their_first_meaning() -> None:
    assert learn("Arena Football League", "AFL", "American Football League", "AFL") == [0, 0, 1, 0]
    assert learn("AFL", "American Football League", "Arena Football League", "AFL") == [0, 0, 1, 0]


def test_a_surname_shared_by_two_spellings_means_their_name() -> None:
    assert learn("Paul Dukas", "Paul Abraham Dukas", "Dukas", "Paul") == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "longer", ["Chicago Bulls", "American Idol", "Real Madrid", "NBA Rookie", "Simon & Garfunkel"]
)
def test_a_word_of_a_place_or_brand_name_is_another_name(longer: str) -> None:
    first = longer.split()[0]
    assert learn(first, longer, longer.split()[-1]) == [0, 1, 2]


def test_a_surname_that_is_also_a_place_means_the_person() -> None:
    assert learn("Jack London", "London") == [0, 0]


def learn_titled(*names: str) -> list[int | None]:
    """Learn names before which a title may stand, through the bytes of the table each time."""
    table, ids = NameTable(), []
    for name in names:
        title, _, rest = name.partition(" ") if name.split()[0] in TITLES else ("", "", name)
        ids.append(table.learn(rest.split(), title))
        table = NameTable.from_bytes(table.to_bytes())
    return ids


TITLES = {"Mr.", "Mrs.", "Miss", "Dr.", "Sir"}


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("Anne Darcy", "Mr. Darcy", "Darcy", "Mr. Darcy"), [0, 1, 0, 1]),
        (("Mr. Darcy", "Anne Darcy", "Darcy", "Mr. Darcy"), [0, 1, 0, 0]),
        (("Darcy", "Mr. Darcy", "Anne Darcy", "Fitzwilliam Darcy"), [0, 0, 1, 0]),
        (("Emma Woodhouse", "Miss Woodhouse", "Mr. Woodhouse", "Woodhouse"), [0, 0, 1, 0]),
        (("John Smith", "Mr. Smith", "Mrs. Smith", "Dr. Smith"), [0, 0, 1, 0]),
        (("Mr. Okafor", "Chidi Okafor", "Sir Okafor"), [0, 0, 0]),
    ],
)
def test_a_surname_after_a_title_is_no_person_who_cannot_have_it(
    names: tuple[str, ...], ids: list[int]
) -> None:
    assert learn_titled(*names) == ids


def test_another_table_is_learned_with_its_titles() -> None:
    other = NameTable.of("Emma Woodhouse")
    other.learn(["Woodhouse"], "Mr.")
    table = NameTable.of("Bath")
    assert table.learn_all(other) == [1, 2]
    assert table.names == ["Bath", "Emma Woodhouse", "Woodhouse"]
    assert table.learn(["Woodhouse"], "Mr.") == 2


def test_resolving_needs_capitals_for_initials_and_learns_nothing() -> None:
    table = NameTable.of("American Dental Association", "Paul Abraham Dukas")
    before = table.copy()
    assert [table.resolve([word]) for word in ("ADA", "A.D.A.", "Ada", "ada")] == [0, 0, None, None]
    assert table.resolve(["paul", "dukas"]) == 1
    assert table == before


def test_learning_another_table_joins_different_spellings() -> None:
    table = NameTable.of("NBA", "Paul Dukas")
    other = NameTable.of("National Basketball Association", "Paul Abraham Dukas", "NBA", "Bath")
    assert table.learn_all(other) == [0, 1, 2]
    assert table.names == ["National Basketball Association", "Paul Abraham Dukas", "Bath"]


def test_a_table_agrees_with_one_that_learned_longer_spellings() -> None:
    table = NameTable.of("U.S.", "Paul Dukas")
    grown = NameTable.of("U.S.", "Paul Dukas", "United States", "Paul Abraham Dukas")
    assert table.agrees_with(grown)
    assert grown.agrees_with(table)
    assert not grown.agrees_with(NameTable.of("U.S.", "Paul Dukas", "Paul Emil Dukas"))


def test_a_decoded_table_knows_initials_and_middle_names() -> None:
    table = NameTable.from_bytes(NameTable.of("United States", "Paul Abraham Dukas").to_bytes())
    assert [table.learn(["U.S."]), table.learn(["Paul", "Dukas"])] == [0, 1]
