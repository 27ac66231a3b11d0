"""Reading by tables of words is reading with the network's own encoders, to the last digits."""

import pytest
import torch

from attar.nn import LONGEST_LOOK
from attar.nn import encoder as make_encoder
from attar.nn.network import Documents
from attar.reader.documents import DocumentEncoder
from attar.reader.questions import QuestionBatch, QuestionEncoder

GRUS = ("gru", "lookahead", "bidirectional")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True, params=[0, 100], ids=["by tables", "by GRUs"])
def tables_from(request, monkeypatch):
    """Few texts are read by the GRUs themselves: here by both."""
    monkeypatch.setattr("attar.reader.recurrence.TABLES_FROM", request.param)


def batch_of(words: int, lengths: list[int]) -> Documents:
    count, width = len(lengths), max(lengths)
    return Documents(
        torch.randint(3, words, (count, width)),
        torch.tensor(lengths),
        torch.rand(count, width) < 0.2,
        torch.full((count, width), -1),
        torch.zeros(count, 2, dtype=torch.int64),
    )


def joined_by_sum(reader):
    """The reader, with encoders whose two directions are added."""
    network = reader.network
    for name in ("document_encoder", "question_encoder"):
        kind = getattr(network, name).name
        setattr(
            network, name, make_encoder(kind, network.options.embedding, network.options.size, join="sum")
        )
    return network


@pytest.mark.parametrize("lengths", [[7, 5, 1], [1, 4, 9], [0, 3, 0], [0, 0]], ids=str)
@pytest.mark.parametrize("encoder", GRUS)
def test_states_are_the_document_encoders(make_reader, encoder, lengths):
    network = make_reader(encoder=encoder).network
    documents = batch_of(network.options.words, lengths)
    with torch.inference_mode():
        hidden, state = DocumentEncoder(network).hidden_states(documents)
        wanted = network.document_encoder(
            network.embedding(documents.ids), documents.lengths, sentence_ends=documents.sentence_ends
        )
    torch.testing.assert_close(hidden, wanted[0], **CLOSE)
    torch.testing.assert_close(state, wanted[1], **CLOSE)


def test_long_sentences_are_cut_where_the_encoder_cuts_them(make_reader):
    network = make_reader(encoder="lookahead").network
    documents = batch_of(network.options.words, [LONGEST_LOOK + 20, 3 * LONGEST_LOOK])
    documents.sentence_ends[:] = False
    documents.sentence_ends[:, 7] = True
    with torch.inference_mode():
        hidden, _ = DocumentEncoder(network).hidden_states(documents)
        wanted, _ = network.document_encoder(
            network.embedding(documents.ids), documents.lengths, sentence_ends=documents.sentence_ends
        )
    torch.testing.assert_close(hidden, wanted, **CLOSE)


@pytest.mark.parametrize("encoder", ["lookahead", "bidirectional"])
def test_directions_that_are_added_are_added(make_reader, encoder):
    network = joined_by_sum(make_reader(encoder=encoder))
    documents = batch_of(network.options.words, [6, 9])
    ids, blanks = documents.ids, torch.tensor([2, 8])
    batch = QuestionBatch(ids.int().numpy(), documents.lengths.numpy(), blanks.numpy())
    with torch.inference_mode():
        hidden, _ = DocumentEncoder(network).hidden_states(documents)
        wanted, _ = network.document_encoder(
            network.embedding(ids), documents.lengths, sentence_ends=documents.sentence_ends
        )
        torch.testing.assert_close(hidden, wanted, **CLOSE)
        queries = QuestionEncoder(network).encode(batch)
        torch.testing.assert_close(queries, network.ask(ids, documents.lengths, blanks), **CLOSE)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("encoder", [*GRUS, "second-order"])
def test_queries_are_what_the_network_asks(make_reader, encoder, positive):
    network = make_reader(encoder=encoder, positive=positive).network
    ids, lengths = torch.randint(3, network.options.words, (4, 9)), torch.tensor([9, 1, 5, 5])
    blanks = torch.tensor([8, 0, 0, 2])
    batch = QuestionBatch(ids.int().numpy(), lengths.numpy(), blanks.numpy())
    with torch.inference_mode():
        queries = QuestionEncoder(network).encode(batch)
        torch.testing.assert_close(queries, network.ask(ids, lengths, blanks), **CLOSE)


@pytest.mark.parametrize(
    "mechanism", ["none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed", "named"]
)
def test_memories_are_the_networks(make_reader, mechanism):
    network = make_reader(mechanism).network
    documents = batch_of(network.options.words, [5, 8])
    documents.names[:, ::3] = 1
    with torch.inference_mode():
        memories, state = DocumentEncoder(network).read(documents)
        wanted = network.read(documents)
        torch.testing.assert_close(memories.state, wanted[0].state, **CLOSE)
        on, _ = DocumentEncoder(network).read(documents, state, memories)
        wanted_on, _ = network.read(documents, state=wanted[1], memories=wanted[0])
        torch.testing.assert_close(on.state, wanted_on.state, **CLOSE)


def test_a_network_that_is_trained_on_is_read_with_its_new_weights(make_reader):
    reader = make_reader()
    before = reader.read("Then Ann met Bob.")
    with torch.no_grad():
        reader.network.document_encoder.onward.weight_hh_l0.add_(0.5)
    assert abs(reader.read("Then Ann met Bob.").numbers - before.numbers).max() > 1e-3
