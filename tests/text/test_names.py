"""A table of names gives the same name the same id, and can be put away and taken up again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import RecordError
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
        st.sampled_from(
            [
                "Ann",
                "Bob",
                "Lee",
                "LEE",
                "New",
                "VIII",
                "Jr.",
                "of",
                "Hall",
                "Halls",
                "NH",
                "N.H.",
                "BAL",
                "Bal",
            ]
        ),
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
    for later in (NameTable.from_bytes(table.to_bytes()), table.copy()):
        at_once = table.copy()
        assert later == table
        assert [at_once.learn(name) for name in after] == [later.learn(name) for name in after]
        assert later == at_once


@given(names)
def test_a_table_is_put_away_as_the_same_bytes_before_and_after_it_is_used(met: list[list[str]]) -> None:
    table = NameTable()
    for name in met:
        table.learn(name)
    taken_up = NameTable.from_bytes(table.to_bytes())
    assert taken_up.to_bytes() == table.to_bytes()
    taken_up.resolve(["Lee"])
    assert taken_up.to_bytes() == table.to_bytes()


def test_a_part_that_many_names_have_is_put_away_in_one_order() -> None:
    grown = NameTable.of(*(f"Ann {chr(65 + at)}xe" for at in range(20)))
    taken_up = NameTable.from_bytes(grown.to_bytes())
    taken_up.resolve(["Ann"])
    assert taken_up.to_bytes() == grown.to_bytes()


def test_a_copy_grows_apart() -> None:
    table = NameTable.of("Jane Bennet")
    learn(table.copy(), "Lydia Bennet")
    assert learn(table, "Bennet", "Bath") == [0, 1]


@given(names, names)
def test_a_table_agrees_with_what_it_grows_into(before: list[list[str]], after: list[list[str]]) -> None:
    table = NameTable(limit=6)
    for name in before:
        table.learn(name)
    grown = table.copy()
    for name in after:
        grown.learn(name)
    assert table.agrees_with(grown)
    assert grown.agrees_with(table)
    assert table.learn_all(grown) == list(range(len(grown)))
    assert table == grown


@given(names)
def test_an_empty_table_learns_another_as_it_is(met: list[list[str]]) -> None:
    table, empty = NameTable(), NameTable()
    for name in met:
        table.learn(name)
    assert empty.learn_all(table) == list(range(len(table)))
    assert empty == table


@given(names, names)
def test_names_that_were_learnt_from_another_table_keep_their_ids(
    first: list[list[str]], second: list[list[str]]
) -> None:
    table, other = NameTable(), NameTable()
    for name in first:
        table.learn(name)
    for name in second:
        other.learn(name)
    places = table.learn_all(other)
    assert [table.resolve(name.split()) for name in other.names] == places
    assert table.learn_all(other) == places


def test_a_full_table_learns_what_it_can_of_another() -> None:
    table = NameTable.of("Ann", limit=2)
    assert table.learn_all(NameTable.of("Bob", "Ann", "Bath")) == [1, 0, None]


@pytest.mark.parametrize(
    "table",
    [
        [],
        {},
        (3, ["Ann"], {"ann": 1}, {}),
        (3, ["Ann"], {"ann": -1}, {}),
        (3, ["Ann"], {"ann": 0}, {"lee": [1]}),
    ],
    ids=["list", "map", "an id without a name", "a negative id", "a holder without a name"],
)
def test_other_bytes_are_refused(table: object) -> None:
    with pytest.raises(RecordError, match="table of names"):
        NameTable.from_bytes(msgspec.msgpack.encode(table)).resolve(["Lee"])


@given(st.binary(max_size=40))
def test_nothing_but_a_record_error_comes_of_any_bytes(noise: bytes) -> None:
    with pytest.raises(RecordError, match="table of names"):
        NameTable.from_bytes(b"\x94" + noise).resolve(["Lee"])
