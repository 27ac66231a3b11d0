"""Strategies: bytes, JSON values and tables like a given one, but not quite; texts that people do not write."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = Any

# Values at the edges of types and formats, and those that other programs write where a number should be.
NUMBERS: SearchStrategy[int | float] = st.sampled_from(
    [0, 1, -1, 2, 127, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63)]
) | st.sampled_from([0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf")])  # fmt: skip
_INTEGERS = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**40, 2**64 - 1])

odd_characters = st.sampled_from(
    [
        "\0", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u200b", "\u2028", "\u202e", "\ufeff",
        "\ufffd", "\ud800", "\udfff", "𝕬", "ﬁ", "İ", "ß", "é", "e\u0301", "漢字", "🏳️‍🌈", "@entity7", "@placeholder",
        "<unk>", "<pad>", "…", "--", "'s", "Mr.", "U.S.", "\u0130stanbul",
    ]
)  # fmt: skip
_SENTENCES = (
    "Then Ann Lee met Bob . Bob's sister Mary Ann left for New York , and Dr. Lee wrote ! Who ? A B I"
)
_WORDS = st.sampled_from(_SENTENCES.split())
texts: SearchStrategy[str] = st.one_of(
    st.lists(_WORDS | odd_characters, max_size=40).map(" ".join),
    st.lists(_WORDS | odd_characters | st.text(max_size=8), max_size=20).map("".join),
    st.text(st.characters(), max_size=60),
    st.builds(
        lambda part, times: part * times, st.text(max_size=4) | _WORDS | odd_characters, st.integers(0, 3000)
    ),
)
json_values: SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated_bytes(draw: st.DrawFn, original: bytes, most: int = 4) -> bytes:
    """Flip, overwrite, insert, remove, repeat or cut bytes, a few times."""
    data = bytearray(original)
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        how = draw(st.sampled_from(["flip", "integer", "insert", "remove", "repeat", "cut", "random"]))
        if how == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "integer":
            size = draw(st.sampled_from([1, 2, 4, 8]))
            number = draw(_INTEGERS) % 256**size
            data[at : at + size] = number.to_bytes(size, draw(st.sampled_from(["little", "big"])))
        elif how == "insert":
            data[at:at] = draw(st.binary(max_size=8))
        elif how == "random":
            new = draw(st.binary(max_size=8))
            data[at : at + len(new)] = new
        elif how == "cut":
            del data[at:]
        else:
            part = data[at : at + draw(st.integers(1, 64))]
            data[at : at + len(part)] = part * 2 if how == "repeat" else b""
    return bytes(data)


@st.composite
def mutated_json(draw: st.DrawFn, original: Json, most: int = 3) -> Json:
    """Replace, remove or rename some values of a nested object by others of any type."""
    value = original
    for _ in range(draw(st.integers(0, most))):
        value = _changed(draw, value)
    return value


def _changed(draw: st.DrawFn, value: Json) -> Json:
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        how = draw(st.sampled_from(["within", "within", "remove", "rename", "add"]))
        rest = {name: each for name, each in value.items() if name != key}
        if how == "remove":
            return rest
        if how == "rename":
            return rest | {draw(texts)[:50]: value[key]}
        if how == "add":
            return value | {draw(st.text(max_size=9)): draw(json_values)}
        return value | {key: _changed(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, int | float) and draw(st.booleans()):
        return draw(NUMBERS) if draw(st.booleans()) else value + draw(st.sampled_from([-1, 1, 0.5]))
    return draw(json_values)


@st.composite
def mutated_table(draw: st.DrawFn, original: Callable[[], Any], most: int = 3) -> Any:
    """Columns of an Arrow table removed, renamed, doubled, cast, or with other values in some rows."""
    import pyarrow as pa

    table = original()
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, table.num_columns - 1))
        name, column = table.column_names[at], table.column(at)
        how = draw(
            st.sampled_from(["values", "values", "null", "cast", "remove", "rename", "double", "rows"])
        )
        if how == "remove" and table.num_columns > 1:
            table = table.remove_column(at)
        elif how == "rename":
            named = draw(st.text(max_size=5)).encode(errors="replace").decode()
            table = table.rename_columns([*table.column_names[:at], named, *table.column_names[at + 1 :]])
        elif how == "double":
            table = table.append_column(name, column)
        elif how == "rows":
            table = pa.concat_tables([table, table]) if table.num_rows < 50 else table.slice(1)
        else:
            changed = _changed_column(draw, how, column)
            if changed is not None:
                table = table.set_column(at, name, changed)
    return table


def _changed_column(draw: st.DrawFn, how: str, column: Any) -> Any:
    """Another column for the same rows; None if it cannot be made."""
    import pyarrow as pa

    kinds = [pa.float64(), pa.int32(), pa.string(), pa.binary(), pa.bool_(), pa.large_string()]
    try:
        if how == "null":
            return pa.nulls(len(column), draw(st.sampled_from([column.type, pa.null()])))
        if how == "cast":
            return column.cast(draw(st.sampled_from([*kinds, pa.list_(pa.int8())])))
        values = column.to_pylist()
        for _ in range(draw(st.integers(1, 3)) if values else 0):
            row = draw(st.integers(0, len(values) - 1))
            values[row] = _changed_value(draw, values[row])
        return pa.array(values, column.type if draw(st.booleans()) else None)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError):
        return None


def _changed_value(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, bytes):
        return draw(mutated_bytes(value))
    if isinstance(value, str) and draw(st.booleans()):
        return draw(texts)
    return _changed(draw, value)
