"""A name table gives each name one id, and survives encoding and decoding."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import RecordError
from attar.text.name_table import NameTable


def learn(table: NameTable, *names: str) -> list[int | None]:
    return [table.learn(name.split()) for name in names]


def test_a_surname_or_first_name_means_the_longer_name() -> None:
    assert learn(NameTable(), "Elizabeth Bennet", "Bennet", "Elizabeth", "ELIZABETH BENNET") == [0, 0, 0, 0]


def test_a_part_of_two_longer_names_is_a_name_of_its_own() -> None:
    assert learn(NameTable(), "Jane Bennet", "Lydia Bennet", "Bennet", "Jane") == [0, 1, 2, 0]


def test_a_longer_name_gets_the_id_of_its_known_part() -> None:
    table = NameTable()
    assert learn(table, "Heathcliff", "Linton", "Edgar Linton", "Linton") == [0, 1, 1, 1]
    assert table.names == ["Heathcliff", "Edgar Linton"]


@pytest.mark.parametrize("longer", ["London Bridge", "New York", "University of London", "Chicago Bulls"])
def test_a_word_of_a_place_or_institution_is_another_name(longer: str) -> None:
    table = NameTable.of(longer)
    first, last = longer.split()[0], longer.split()[-1]
    assert [table.resolve([first]), table.resolve([last])] == [None, None]
    assert learn(table, longer, last, first) == [0, 1, 2]


def test_numerals_and_suffixes_are_not_surnames() -> None:
    assert learn(NameTable(), "Edward Wood Jr.", "Wood", "Henry Tudor VIII", "Tudor") == [0, 0, 1, 1]


def test_a_full_table_learns_only_longer_spellings() -> None:
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
def test_decoded_and_copied_tables_learn_like_the_original(
    before: list[list[str]], after: list[list[str]]
) -> None:
    table = NameTable(limit=6)
    for name in before:
        table.learn(name)
    for other in (NameTable.from_bytes(table.to_bytes()), table.copy()):
        at_once = table.copy()
        assert other == table
        assert [at_once.learn(name) for name in after] == [other.learn(name) for name in after]
        assert other == at_once


@given(names)
def test_resolving_a_name_does_not_change_the_encoded_bytes(given_names: list[list[str]]) -> None:
    table = NameTable()
    for name in given_names:
        table.learn(name)
    decoded = NameTable.from_bytes(table.to_bytes())
    assert decoded.to_bytes() == table.to_bytes()
    decoded.resolve(["Lee"])
    assert decoded.to_bytes() == table.to_bytes()


def test_holders_are_encoded_in_sorted_order() -> None:
    grown = NameTable.of(*(f"Ann {chr(65 + at)}xe" for at in range(20)))
    decoded = NameTable.from_bytes(grown.to_bytes())
    decoded.resolve(["Ann"])
    assert decoded.to_bytes() == grown.to_bytes()


def test_a_copy_is_independent() -> None:
    table = NameTable.of("Jane Bennet")
    learn(table.copy(), "Lydia Bennet")
    assert learn(table, "Bennet", "Bath") == [0, 1]


@given(names, names)
def test_a_table_agrees_with_a_later_version_of_itself(
    before: list[list[str]], after: list[list[str]]
) -> None:
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
def test_an_empty_table_becomes_equal_to_the_table_it_learns(given_names: list[list[str]]) -> None:
    table, empty = NameTable(), NameTable()
    for name in given_names:
        table.learn(name)
    assert empty.learn_all(table) == list(range(len(table)))
    assert empty == table


@given(names, names)
def test_names_learned_from_another_table_keep_their_ids(
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


def test_a_full_table_gives_no_id_to_another_tables_new_names() -> None:
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
def test_invalid_tables_are_refused(table: object) -> None:
    with pytest.raises(RecordError, match="table of names"):
        NameTable.from_bytes(msgspec.msgpack.encode(table)).resolve(["Lee"])


@given(st.binary(max_size=40))
def test_any_other_bytes_raise_a_record_error(noise: bytes) -> None:
    with pytest.raises(RecordError, match="table of names"):
        NameTable.from_bytes(b"\x94" + noise).resolve(["Lee"])
