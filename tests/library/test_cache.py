"""What was asked is asked again without decoding it, and never of an earlier writing."""

import pytest

from attar.library import Library, cache
from attar.library.cache import MemoryCache


@pytest.fixture
def decoded(monkeypatch):
    """How many memories were decoded, as a list that grows."""
    found = []
    ready = cache.ready

    def count(data):
        found.append(data)
        return ready(data)

    monkeypatch.setattr(cache, "ready", count)
    return found


def test_a_document_is_decoded_once(library, texts, decoded):
    library.add("emma", texts[0])
    first = library.ask("emma", "Who left?")
    assert library.ask("emma", "Who left?") == first
    assert len(decoded) == 1


def test_a_document_asked_twice_at_once_is_decoded_once(library, texts, decoded):
    library.add("emma", texts[0])
    library.ask_many(["emma", "emma"], ["Who left?", "Who came?"])
    assert len(decoded) == 1


@pytest.mark.parametrize("change", ["replace", "append", "remove and add"])
def test_what_another_wrote_is_seen_at_once(library, folder, reader, texts, change):
    library.add("emma", texts[0])
    library.ask("emma", "Who left?")
    with Library(folder, reader) as other:
        if change == "replace":
            other.add("emma", texts[1], replace=True)
        elif change == "append":
            other.append("emma", texts[1])
        else:
            other.remove("emma")
            other.add("emma", texts[1])
    fresh = reader.answer(library.show("emma").memory, "Who left?", top=5)
    assert [answer.text for answer in library.ask("emma", "Who left?")] == [each.text for each in fresh]


def test_what_another_removed_is_gone(library, folder, reader, texts):
    library.add("emma", texts[0])
    library.ask("emma", "Who left?")
    with Library(folder, reader) as other:
        other.remove("emma")
    with pytest.raises(LookupError):
        library.ask("emma", "Who left?")


def test_those_asked_longest_ago_go_first(library, texts):
    library.add_many(zip("abc", texts, strict=False))
    with library.store.snapshot() as now:
        weights = {name: cache.weight_of(now.memory(name)) for name in "abc"}
        small = MemoryCache(sum(weights.values()) - 1)
        a, _, _, again = (small.memory(now, name) for name in "abca")
        assert again is not a
        assert small.memory(now, "a") is again
        assert len(small) == 2
        assert small.weight <= small.limit


def test_what_is_larger_than_the_cache_is_answered_all_the_same(folder, reader, texts):
    with Library(folder, reader, cache=0) as library:
        library.add("emma", texts[0])
        assert library.ask("emma", "Who left?")
        assert len(library._cache) == 0
