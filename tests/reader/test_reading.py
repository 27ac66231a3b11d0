"""Text becomes memories: at once or in parts, alone or beside others, the same."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn import COPY_MECHANISMS, MECHANISMS
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import Reader, texts
from attar.reader import reader as room
from attar.text import NameTable

ALL = (*MECHANISMS, *COPY_MECHANISMS)
READING_ON = ("gru", "lookahead", "second-order")
shared = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def cut_after(text: str, sentences: int) -> tuple[str, str]:
    """The text in two, behind so many sentences."""
    at = 0
    for _ in range(sentences):
        at = text.index(". ", at) + 1
    return text[:at], text[at:]


@pytest.mark.parametrize("encoder", READING_ON)
@pytest.mark.parametrize("mechanism", ALL)
def test_reading_on_equals_reading_at_once(make_reader, stories, assert_same, mechanism, encoder):
    reader, text = make_reader(mechanism, encoder), stories[0].text
    first, rest = cut_after(text, 4)
    assert_same(reader.extend(reader.read(first), rest), reader.read(text))


def test_states_of_both_ways_may_be_added(make_reader, stories, assert_same):
    reader, text = make_reader("gated", join="sum"), stories[0].text
    first, rest = cut_after(text, 4)
    assert_same(reader.extend(reader.read(first), rest), reader.read(text))
    assert reader.answer(reader.read(text), stories[0].questions[0][0])


@shared
@given(cuts=st.sets(st.integers(1, 6)), mechanism=st.sampled_from(ALL), size=st.sampled_from((6, 90, 400)))
def test_reading_on_again_and_again_equals_reading_at_once(
    make_reader, stories, assert_same, cuts, mechanism, size
):
    reader, text = make_reader(mechanism, size=size), stories[1].text
    places = [len(cut_after(text, cut)[0]) for cut in sorted(cuts)]
    memory = reader.read("")
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        memory = reader.extend(memory, text[start:stop])
    assert_same(memory, reader.read(text))


@shared
@given(cuts=st.sets(st.integers(1, 6)))
def test_company_is_read_on_as_well(make_company_reader, stories, assert_same, cuts):
    reader, text = make_company_reader(), stories[1].text
    memory = reader.read("")
    places = [len(cut_after(text, cut)[0]) for cut in sorted(cuts)]
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        memory = reader.extend(memory, text[start:stop])
    assert len(memory.company.ids) > 50
    assert_same(memory, reader.read(text))


def test_company_is_the_same_beside_others_and_merges(make_company_reader, stories, assert_same):
    reader, told = make_company_reader(), [story.text for story in stories[:4]]
    apart = [reader.read(text) for text in told]
    for one, other in zip(reader.read_many(told), apart, strict=True):
        assert_same(one, other)
    merged = apart[0] + apart[1]
    assert merged.company.mentions().sum() == sum(each.company.mentions().sum() for each in apart[:2])


@pytest.mark.parametrize("mechanism", ALL)
def test_a_bidirectional_reader_refuses_to_read_on(make_reader, stories, mechanism):
    reader = make_reader(mechanism, "bidirectional")
    with pytest.raises(OptionError, match="a bidirectional one; read the whole text again"):
        reader.extend(reader.read(stories[0].text), "Then Ann left.")


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_a_short_text_is_kept_as_states_until_the_triangle_is_less(make_reader, stories, mechanism):
    reader = make_reader(mechanism, size=80)
    first, rest = cut_after(stories[0].text, 2)
    short = reader.read(first)
    assert (short.form, len(short.numbers)) == ("states", short.tokens)
    assert reader.extend(short, "Then Ann left.").form == "states"
    assert reader.extend(short, rest).form == "triangle"


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_states_answer_as_their_triangle(make_reader, stories, mechanism):
    reader = make_reader(mechanism, size=400)
    memory, question = reader.read(stories[0].text), stories[0].questions[0][0]
    assert memory.form == "states"
    kept, packed = (reader.answer(each, question) for each in (memory, memory.to_form("triangle")))
    assert [answer.text for answer in kept] == [answer.text for answer in packed]
    assert [a.probability for a in kept] == pytest.approx([a.probability for a in packed], rel=1e-3)


@pytest.mark.parametrize("encoder", [*READING_ON, "bidirectional"])
@pytest.mark.parametrize("mechanism", ALL)
def test_read_many_equals_read(make_reader, stories, assert_same, mechanism, encoder):
    reader = make_reader(mechanism, encoder)
    if encoder == "second-order":
        # It reads its own memory, and so its own rounding: 3e-5 in float32 on one of these texts, 4e-14 so.
        reader.network.double()
    many = [story.text for story in stories[:5]]
    many[2:2] = ["", "Ann."]
    for together, alone in zip(reader.read_many(many, batch=3), map(reader.read, many), strict=True):
        assert_same(together, alone)


@pytest.mark.parametrize("mechanism", ALL)
def test_a_long_text_is_read_piece_by_piece(make_reader, stories, assert_same, monkeypatch, mechanism):
    reader, many = make_reader(mechanism), [stories[0].text, stories[1].text * 3, stories[2].text]
    whole = reader.read_many(many)
    monkeypatch.setattr(texts, "LONGEST_PIECE", 40)
    for pieces, once in zip(reader.read_many(many), whole, strict=True):
        assert_same(pieces, once)


@pytest.mark.parametrize("mechanism", ["named", "gated", "decayed", "softmax"])
def test_a_text_too_long_for_one_array_of_ids_is_read_part_by_part(
    make_reader, stories, assert_same, monkeypatch, mechanism
):
    reader, text = make_reader(mechanism, "lookahead"), "\n".join(story.text for story in stories)
    first, last = stories[0].text, stories[-1].text
    at_once = reader.read(text)
    beside, together = reader.read_many([first, text, last]), reader.read_many([first, text], together=True)
    longer = reader.extend(reader.read(first), text)
    monkeypatch.setattr(room, "LONG_TEXT", 2000)
    monkeypatch.setattr(room, "TOKENS_A_PART", 60)
    assert len(text) > 2000 > len(last)
    assert_same(reader.read(text), at_once)
    for mine, its in zip(reader.read_many([first, text, last]), beside, strict=True):
        assert_same(mine, its)
    for mine, its in zip(reader.read_many([first, text], together=True), together, strict=True):
        assert_same(mine, its)
    assert_same(reader.extend(reader.read(first), text), longer)


def test_a_long_text_of_company_is_read_part_by_part(make_company_reader, stories, assert_same, monkeypatch):
    reader, text = make_company_reader(), "\n".join(story.text for story in stories)
    at_once = reader.read(text)
    monkeypatch.setattr(room, "LONG_TEXT", 500)
    monkeypatch.setattr(room, "TOKENS_A_PART", 60)
    assert_same(reader.read(text), at_once)


def test_parts_tell_how_far_the_whole_text_is(reader, stories, monkeypatch):
    monkeypatch.setattr(room, "LONG_TEXT", 500)
    monkeypatch.setattr(room, "TOKENS_A_PART", 60)
    heard = []
    text = " ".join(story.text for story in stories)
    reader.read_many([text], progress=lambda what, done, total: heard.append((done, total)))
    done = [each for each, _ in heard]
    assert done[0] == 0
    assert done == sorted(set(done))
    assert all(each <= total for each, total in heard)


def test_nothing_but_spaces_is_nothing_however_long(reader, monkeypatch):
    monkeypatch.setattr(room, "LONG_TEXT", 5)
    assert reader.read(" " * 9).tokens == 0
    assert reader.read(" " * 9, names=NameTable.of("Bath")).names.names == ["Bath"]


def test_states_and_sums_are_read_side_by_side(make_reader, stories, assert_same):
    reader = make_reader("gated", size=100)
    many = [cut_after(stories[0].text, 1)[0], stories[1].text, cut_after(stories[2].text, 1)[0]]
    memories = reader.read_many(many)
    assert [memory.form for memory in memories] == ["states", "triangle", "states"]
    for memory, text in zip(memories, many, strict=True):
        assert_same(memory, reader.read(text))


@pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "named"])
def test_texts_read_together_merge(make_reader, stories, mechanism):
    reader = make_reader(mechanism)
    many = [story.text for story in stories[:3]]
    a, b, c = reader.read_many(many, together=True)
    merged = a + b + c
    assert merged.tokens == a.tokens + b.tokens + c.tokens
    assert merged.names.names == c.names.names
    for memory in (a, b):
        assert memory.names.names == c.names.names[: len(memory.names)]


def test_texts_read_apart_merge_by_name_or_not_at_all(make_reader, stories):
    named, gated = make_reader("named"), make_reader("gated")
    assert len((named.read(stories[0].text) + named.read(stories[1].text)).names) > len(stories[0].names)
    with pytest.raises(OptionError, match="together=True"):
        gated.read(stories[0].text) + gated.read(stories[1].text)


def test_a_memory_read_together_has_the_names_up_to_its_own_end(reader):
    first, second = reader.read_many(["Then Ann met Bob.", "Then Zoe met Bob."], together=True)
    assert first.names.names == ["Ann", "Bob"]
    assert second.names.names == ["Ann", "Bob", "Zoe"]


def test_a_given_table_learns_and_the_memory_keeps_its_own(reader):
    table = NameTable.of("Zoe")
    memory = reader.read("Then Ann met Bob.", names=table)
    table.learn(["Mr", "Late"])
    assert (memory.names.names, table.names) == (["Zoe", "Ann", "Bob"], ["Zoe", "Ann", "Bob", "Mr Late"])


def test_reading_on_leaves_the_old_memory_alone(reader):
    old = reader.read("Then Ann met Bob.")
    kept = old.to_bytes()
    reader.extend(old, "Then Zoe left.")
    assert old.to_bytes() == kept


def test_a_memory_read_on_after_storing_is_the_same(make_reader, stories, assert_same):
    reader = make_reader("gated")
    first, rest = cut_after(stories[0].text, 3)
    stored = type(reader.read(first)).from_bytes(reader.read(first).to_bytes())
    assert_same(reader.extend(stored, rest), reader.read(stories[0].text))


@pytest.mark.parametrize("mechanism", ALL)
def test_an_empty_text_is_a_memory_of_no_tokens(make_reader, mechanism):
    reader = make_reader(mechanism)
    memory = reader.read("")
    assert (memory.tokens, len(memory.names)) == (0, 0)
    assert reader.answer(memory, "Who left?") == []


def test_no_texts_no_memories(reader):
    assert reader.read_many([]) == []


@pytest.mark.parametrize("text", [None, 3, b"Ann left."])
def test_what_is_no_text_is_refused(reader, text):
    with pytest.raises(DtypeError, match=f"text: expected a string, got {type(text).__name__}"):
        reader.read(text)


def test_a_batch_of_none_is_refused(reader):
    with pytest.raises(OptionError, match="batch"):
        reader.read_many(["Ann left."], batch=0)


def test_a_memory_without_a_state_is_not_read_on(reader):
    memory = reader.read("Then Ann left.")
    bare = type(memory).of("named", memory.array(), tokens=4, reader=reader.fingerprint, names=memory.names)
    with pytest.raises(OptionError, match="a state of 3 to read on from"):
        reader.extend(bare, "Then Bob left.")


def test_memories_of_softmax_with_the_copy_head_cannot_answer(make_reader):
    with pytest.raises(OptionError, match="whose memories answer by themselves"):
        make_reader("softmax", head="copy").read("Ann left.")


def test_another_vocabulary_than_the_networks_is_refused(vocabulary):
    options = NetworkOptions(words=len(vocabulary) + 1, entities=vocabulary.entities)
    with pytest.raises(ShapeError, match="the network was trained with"):
        Reader(Network(options), vocabulary)


@pytest.mark.gpu
@pytest.mark.parametrize("mechanism", ALL)
def test_a_reader_on_a_device_reads_and_answers_the_same(
    make_reader, stories, assert_same, device, mechanism
):
    here, there = make_reader(mechanism), make_reader(mechanism).to(device)
    text, question = stories[0].text, stories[0].questions[0][0]
    first, rest = cut_after(text, 3)
    memory = there.extend(there.read(first), rest)
    # A GPU's GRU multiplies numbers of eleven bits; a CPU's does not.
    on_gpu = device == "cuda"
    assert_same(memory, here.read(text), close=1e-2 if on_gpu else 1e-4)
    one, other = (
        {answer.text: answer.probability for answer in reader.answer(memory, question)}
        for reader in (there, here)
    )
    assert one == pytest.approx(other, rel=2e-2 if on_gpu else 1e-3)


def test_a_long_text_tells_how_far_it_is():
    reader = Reader.load()
    heard = []
    text = "Ann met Bob in the old house by the river. " * 1_500
    reader.read_many([text], progress=lambda what, done, total: heard.append((what, done, total)))
    assert len(heard) > 2
    assert [done for _, done, _ in heard] == sorted({done for _, done, _ in heard})
    assert {(what, total) for what, _, total in heard} == {("reading", 15_000 + 1_500)}
