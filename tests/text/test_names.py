"""A table of names gives the same name the same id, and can be put away and taken up again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import FormatError
from attar.text.names import NameTable


def learn(table: NameTable, *names: str) -> list[int | None]:
    return [table.learn(name.split()) for name in names]


def test_a_lone_surname_or_first_name_means_the_longer_name() -> None:
    assert learn(NameTable(), "Elizabeth Bennet", "Bennet", "Elizabeth", "ELIZABETH BENNET") == [0, 0, 0, 0]


def test_two_longer_names_make_their_common_part_a_name_of_its_own() -> None:
    assert learn(NameTable(), "Jane Bennet", "Lydia Bennet", "Bennet", "Jane") == [0, 1, 2, 0]


def test_a_longer_name_joins_the_part_that_was_known() -> None:
    table = NameTable()
    assert learn(table, "Heathcliff", "Linton", "Edgar Linton", "Linton") == [0, 1, 1, 1]
    assert table.names == ["Heathcliff", "Edgar Linton"]


@pytest.mark.parametrize("longer", ["London Bridge", "New York", "University of London", "The London"])
def test_places_and_institutions_lend_no_part(longer: str) -> None:
    assert learn(NameTable(), longer, longer.split()[-1], longer.split()[0]) != [0, 0, 0]
    assert NameTable().resolve(["London"]) is None


def test_numerals_and_suffixes_are_no_surnames() -> None:
    assert learn(NameTable(), "Edward Wood Jr.", "Wood", "Henry Tudor VIII", "Tudor") == [0, 0, 1, 1]


def test_a_full_table_takes_no_new_name() -> None:
    assert learn(NameTable(limit=1), "Ann", "Bob", "Ann Lee") == [0, None, 0]


names = st.lists(
    st.lists(
        st.sampled_from(["Ann", "Bob", "Lee", "Ray", "New", "VIII", "Jr.", "of", "Hall"]),
        min_size=1,
        max_size=3,
    ),
    max_size=12,
)


@given(names, names)
def test_going_on_later_equals_going_on_at_once(before: list[list[str]], after: list[list[str]]) -> None:
    table = NameTable(limit=6)
    for name in before:
        table.learn(name)
    later = NameTable.from_json(json.loads(json.dumps(table.to_json())))
    assert later == table
    assert [table.learn(name) for name in after] == [later.learn(name) for name in after]
    assert later == table


@pytest.mark.parametrize("state", [{}, {"limit": 3, "names": ["Ann"], "aliases": {"x": 7}}, {"limit": "x"}])
def test_another_object_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="table of names"):
        NameTable.from_json(state)
