"""A text has the same memory whether it is read at once, in parts, alone or in a batch."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import batches
from attar.reader import names as module
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from attar.text.name_table import NameTable

ALL = (*MECHANISMS, *COPY_MECHANISMS)
EXTENDABLE = ("gru", "lookahead", "second-order")
shared = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def cut_after(text: str, sentences: int) -> tuple[str, str]:
    """The text in two parts, cut after this many sentences."""
    at = 0
    for _ in range(sentences):
        at = text.index(". ", at) + 1
    return text[:at], text[at:]


@pytest.mark.parametrize("encoder", EXTENDABLE)
@pytest.mark.parametrize("mechanism", ALL)
def test_extending_equals_reading_at_once(make_reader, stories, assert_same, mechanism, encoder):
    reader, text = make_reader(mechanism, encoder), stories[0].text
    first, rest = cut_after(text, 4)
    assert_same(reader.extend(reader.read(first), rest), reader.read(text))


def test_the_states_of_both_directions_may_be_added(make_reader, stories, assert_same):
    reader, text = make_reader("gated", join="sum"), stories[0].text
    first, rest = cut_after(text, 4)
    assert_same(reader.extend(reader.read(first), rest), reader.read(text))
    assert reader.answer(reader.read(text), stories[0].questions[0][0])


@pytest.mark.slow
@shared
@given(cuts=st.sets(st.integers(1, 6)), mechanism=st.sampled_from(ALL), size=st.sampled_from((6, 90, 400)))
def test_extending_repeatedly_equals_reading_at_once(
    make_reader, stories, assert_same, cuts, mechanism, size
):
    reader, text = make_reader(mechanism, size=size), stories[1].text
    places = [len(cut_after(text, cut)[0]) for cut in sorted(cuts)]
    memory = reader.read("")
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        memory = reader.extend(memory, text[start:stop])
    assert_same(memory, reader.read(text))


@pytest.mark.slow
@shared
@given(cuts=st.sets(st.integers(1, 6)))
def test_extending_also_extends_cooccurrence_counts(make_cooccurrence_reader, stories, assert_same, cuts):
    reader, text = make_cooccurrence_reader(), stories[1].text
    memory = reader.read("")
    places = [len(cut_after(text, cut)[0]) for cut in sorted(cuts)]
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        memory = reader.extend(memory, text[start:stop])
    assert len(memory.cooccurrence.ids) > 50
    assert_same(memory, reader.read(text))


def test_cooccurrence_counts_are_the_same_in_a_batch_and_merge(
    make_cooccurrence_reader, stories, assert_same
):
    reader, texts = make_cooccurrence_reader(), [story.text for story in stories[:4]]
    apart = [reader.read(text) for text in texts]
    for one, other in zip(reader.read_many(texts), apart, strict=True):
        assert_same(one, other)
    merged = apart[0] + apart[1]
    assert merged.cooccurrence.mentions.sum() == sum(each.cooccurrence.mentions.sum() for each in apart[:2])


@pytest.mark.parametrize("encoder", ["bidirectional", "transformer"])
@pytest.mark.parametrize("mechanism", ALL)
def test_a_reader_that_reads_ahead_refuses_to_extend(make_reader, stories, mechanism, encoder):
    reader = make_reader(mechanism, encoder)
    with pytest.raises(OptionError, match=f"a {encoder} one; read the whole text again"):
        reader.extend(reader.read(stories[0].text), "Then Ann left.")


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_a_short_text_is_kept_as_states_while_they_are_smaller(make_reader, stories, mechanism):
    reader = make_reader(mechanism, size=80)
    first, rest = cut_after(stories[0].text, 2)
    short = reader.read(first)
    assert (short.form, len(short.numbers)) == ("states", short.tokens)
    assert reader.extend(short, "Then Ann left.").form == "states"
    assert reader.extend(short, rest).form == "triangle"


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_states_give_the_answers_of_their_triangle(make_reader, stories, mechanism):
    reader = make_reader(mechanism, size=400)
    memory, question = reader.read(stories[0].text), stories[0].questions[0][0]
    assert memory.form == "states"
    kept, packed = (reader.answer(each, question) for each in (memory, memory.to_form("triangle")))
    assert [answer.text for answer in kept] == [answer.text for answer in packed]
    assert [a.probability for a in kept] == pytest.approx([a.probability for a in packed], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", [*EXTENDABLE, "bidirectional"])
@pytest.mark.parametrize("mechanism", ALL)
def test_read_many_equals_read(make_reader, stories, assert_same, mechanism, encoder):
    reader = make_reader(mechanism, encoder)
    if encoder == "second-order":
        # Its recurrence amplifies rounding: an error of 3e-5 in float32 on one of these texts, 4e-14 in float64.
        reader.network.double()
    many = [story.text for story in stories[:5]]
    many[2:2] = ["", "Ann."]
    for in_batch, alone in zip(reader.read_many(many, batch_size=3), map(reader.read, many), strict=True):
        assert_same(in_batch, alone)


@pytest.mark.parametrize("mechanism", ALL)
def test_a_long_text_is_read_piece_by_piece(make_reader, stories, assert_same, monkeypatch, mechanism):
    reader, many = make_reader(mechanism), [stories[0].text, stories[1].text * 3, stories[2].text]
    whole = reader.read_many(many)
    monkeypatch.setattr(batches, "LONGEST_PIECE", 40)
    for pieces, once in zip(reader.read_many(many), whole, strict=True):
        assert_same(pieces, once)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["named", "gated", "decayed", "softmax"])
def test_a_text_too_long_for_one_array_of_ids_is_read_part_by_part(
    make_reader, stories, assert_same, monkeypatch, mechanism
):
    reader, text = make_reader(mechanism, "lookahead"), "\n".join(story.text for story in stories)
    first, last = stories[0].text, stories[-1].text
    at_once = reader.read(text)
    separate, shared = (
        reader.read_many([first, text, last]),
        reader.read_many([first, text], shared_names=True),
    )
    longer = reader.extend(reader.read(first), text)
    monkeypatch.setattr(module, "LONG_TEXT", 2000)
    monkeypatch.setattr(module, "TOKENS_PER_PART", 60)
    assert len(text) > 2000 > len(last)
    assert_same(reader.read(text), at_once)
    for mine, its in zip(reader.read_many([first, text, last]), separate, strict=True):
        assert_same(mine, its)
    for mine, its in zip(reader.read_many([first, text], shared_names=True), shared, strict=True):
        assert_same(mine, its)
    assert_same(reader.extend(reader.read(first), text), longer)


def test_cooccurrence_counts_of_a_long_text_in_parts(
    make_cooccurrence_reader, stories, assert_same, monkeypatch
):
    reader, text = make_cooccurrence_reader(), "\n".join(story.text for story in stories)
    at_once = reader.read(text)
    monkeypatch.setattr(module, "LONG_TEXT", 500)
    monkeypatch.setattr(module, "TOKENS_PER_PART", 60)
    assert_same(reader.read(text), at_once)


def test_progress_of_a_text_in_parts_is_that_of_the_whole_text(reader, stories, monkeypatch):
    monkeypatch.setattr(module, "LONG_TEXT", 500)
    monkeypatch.setattr(module, "TOKENS_PER_PART", 60)
    reports = []
    text = " ".join(story.text for story in stories)
    reader.read_many([text], progress=lambda what, done, total: reports.append((done, total)))
    done = [each for each, _ in reports]
    assert done[0] == 0
    assert done == sorted(set(done))
    assert all(each <= total for each, total in reports)


def test_a_long_text_of_spaces_has_no_tokens(reader, monkeypatch):
    monkeypatch.setattr(module, "LONG_TEXT", 5)
    assert reader.read(" " * 9).tokens == 0
    assert reader.read(" " * 9, names=NameTable.of("Bath")).names.names == ["Bath"]


def test_states_and_triangles_are_read_in_one_call(make_reader, stories, assert_same):
    reader = make_reader("gated", size=100)
    many = [cut_after(stories[0].text, 1)[0], stories[1].text, cut_after(stories[2].text, 1)[0]]
    memories = reader.read_many(many)
    assert [memory.form for memory in memories] == ["states", "triangle", "states"]
    for memory, text in zip(memories, many, strict=True):
        assert_same(memory, reader.read(text))


@pytest.mark.parametrize("mechanism", ["linear", "gated", "keyed", "named"])
def test_texts_with_shared_names_merge(make_reader, stories, mechanism):
    reader = make_reader(mechanism)
    many = [story.text for story in stories[:3]]
    a, b, c = reader.read_many(many, shared_names=True)
    merged = a + b + c
    assert merged.tokens == a.tokens + b.tokens + c.tokens
    assert merged.names.names == c.names.names
    for memory in (a, b):
        assert memory.names.names == c.names.names[: len(memory.names)]


def test_texts_without_shared_names_merge_only_by_name(make_reader, stories):
    named, gated = make_reader("named"), make_reader("gated")
    assert len((named.read(stories[0].text) + named.read(stories[1].text)).names) > len(stories[0].names)
    with pytest.raises(OptionError, match="shared_names=True"):
        gated.read(stories[0].text) + gated.read(stories[1].text)


def test_with_shared_names_a_memory_has_the_names_up_to_its_own_end(reader):
    first, second = reader.read_many(["Then Ann met Bob.", "Then Zoe met Bob."], shared_names=True)
    assert first.names.names == ["Ann", "Bob"]
    assert second.names.names == ["Ann", "Bob", "Zoe"]


def test_a_given_table_learns_and_the_memory_has_a_copy(reader):
    table = NameTable.of("Zoe")
    memory = reader.read("Then Ann met Bob.", names=table)
    table.learn(["Mr", "Late"])
    assert (memory.names.names, table.names) == (["Zoe", "Ann", "Bob"], ["Zoe", "Ann", "Bob", "Mr Late"])


def test_extending_does_not_change_the_old_memory(reader):
    old = reader.read("Then Ann met Bob.")
    kept = old.to_bytes()
    reader.extend(old, "Then Zoe left.")
    assert old.to_bytes() == kept


def test_a_stored_memory_can_be_extended(make_reader, stories, assert_same):
    reader = make_reader("gated")
    first, rest = cut_after(stories[0].text, 3)
    stored = type(reader.read(first)).from_bytes(reader.read(first).to_bytes())
    assert_same(reader.extend(stored, rest), reader.read(stories[0].text))


@pytest.mark.parametrize("mechanism", ALL)
def test_an_empty_text_gives_a_memory_without_tokens(make_reader, mechanism):
    reader = make_reader(mechanism)
    memory = reader.read("")
    assert (memory.tokens, len(memory.names)) == (0, 0)
    assert reader.answer(memory, "Who left?") == []


def test_no_texts_give_no_memories(reader):
    assert reader.read_many([]) == []


@pytest.mark.parametrize("text", [None, 3, b"Ann left."])
def test_a_text_that_is_not_a_string_is_refused(reader, text):
    with pytest.raises(DtypeError, match=f"text: expected a string, got {type(text).__name__}"):
        reader.read(text)


def test_a_batch_size_of_0_is_refused(reader):
    with pytest.raises(OptionError, match="batch"):
        reader.read_many(["Ann left."], batch_size=0)


def test_a_memory_without_an_encoder_state_cannot_be_extended(reader):
    memory = reader.read("Then Ann left.")
    bare = type(memory).of("named", memory.array(), tokens=4, reader=reader.fingerprint, names=memory.names)
    with pytest.raises(OptionError, match="an encoder state of size 3"):
        reader.extend(bare, "Then Bob left.")


def test_memories_of_softmax_with_the_copy_head_cannot_answer(make_reader):
    with pytest.raises(OptionError, match="can answer from memories alone"):
        make_reader("softmax", head="copy").read("Ann left.")


def test_the_vocabulary_of_another_network_is_refused(vocabulary):
    options = NetworkOptions(words=len(vocabulary) + 1, entities=vocabulary.entities)
    with pytest.raises(ShapeError, match="the network was trained with"):
        NamesReader(Network(options), vocabulary)


@pytest.mark.gpu
@pytest.mark.parametrize("mechanism", ALL)
def test_a_reader_on_a_device_reads_and_answers_the_same(
    make_reader, stories, assert_same, device, mechanism
):
    here, there = make_reader(mechanism), make_reader(mechanism).to(device)
    text, question = stories[0].text, stories[0].questions[0][0]
    first, rest = cut_after(text, 3)
    memory = there.extend(there.read(first), rest)
    # The GRU of a GPU multiplies in TF32, with eleven bits.
    on_gpu = device == "cuda"
    assert_same(memory, here.read(text), close=1e-2 if on_gpu else 1e-4)
    one, other = (
        {answer.text: answer.probability for answer in reader.answer(memory, question)}
        for reader in (there, here)
    )
    assert one == pytest.approx(other, rel=2e-2 if on_gpu else 1e-3)


@pytest.mark.slow
def test_progress_is_reported_for_a_long_text():
    reader = Reader.load("names")
    reports = []
    text = "Ann met Bob in the old house by the river. " * 1_500
    reader.read_many([text], progress=lambda what, done, total: reports.append((what, done, total)))
    assert len(reports) > 2
    assert [done for _, done, _ in reports] == sorted({done for _, done, _ in reports})
    assert {(what, total) for what, _, total in reports} == {("reading", 15_000 + 1_500)}
