"""`FastTextEncoder` gives the hidden states and queries of `TextEncoder`, up to float32 rounding."""

import pytest
import torch

from attar.nn.encoders import LONGEST_LOOK
from attar.nn.encoders import encoder as make_encoder
from attar.nn.network import Documents
from attar.reader import fast_encoding
from attar.reader.encoding import QuestionBatch, TextEncoder
from attar.reader.fast_encoding import FastTextEncoder

GRUS = ("gru", "lookahead", "bidirectional")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def always_tables(monkeypatch):
    """Use tables for small batches too."""
    monkeypatch.setattr(fast_encoding, "TABLES_FROM", 0)


def batch_of(words: int, lengths: list[int]) -> Documents:
    count, width = len(lengths), max(lengths)
    return Documents(
        torch.randint(3, words, (count, width)),
        torch.tensor(lengths),
        torch.rand(count, width) < 0.2,
        torch.full((count, width), -1),
        torch.zeros(count, 2, dtype=torch.int64),
    )


def questions_of(words: int, lengths: list[int], blanks: list[int]) -> QuestionBatch:
    ids = torch.randint(3, words, (len(lengths), max(lengths)))
    return QuestionBatch(ids.int().numpy(), torch.tensor(lengths).numpy(), torch.tensor(blanks).numpy())


def use_added_directions(network) -> None:
    """Give the network encoders whose two directions are added."""
    for name in ("document_encoder", "question_encoder"):
        kind, options = getattr(network, name).name, network.options
        setattr(network, name, make_encoder(kind, options.embedding_size, options.hidden_size, join="sum"))


def assert_same_hidden_states(network, documents, state=None) -> None:
    with torch.inference_mode():
        plain, fast = (
            kind(network).hidden_states(documents, state) for kind in (TextEncoder, FastTextEncoder)
        )
    torch.testing.assert_close(fast[0], plain[0], **CLOSE)
    torch.testing.assert_close(fast[1], plain[1], **CLOSE)


def assert_same_queries(network, questions) -> None:
    with torch.inference_mode():
        plain, fast = (kind(network).queries(questions) for kind in (TextEncoder, FastTextEncoder))
    torch.testing.assert_close(fast, plain, **CLOSE)


@pytest.mark.parametrize("lengths", [[7, 5, 1], [1, 4, 9], [0, 3, 0], [0, 0]], ids=str)
@pytest.mark.parametrize("encoder", [*GRUS, "second-order"])
def test_hidden_states_are_those_of_the_plain_encoder(make_reader, encoder, lengths):
    network = make_reader(encoder=encoder).network
    assert_same_hidden_states(network, batch_of(network.options.words, lengths))


@pytest.mark.parametrize("encoder", ["gru", "lookahead"])
def test_hidden_states_extend_from_a_state(make_reader, encoder):
    network = make_reader(encoder=encoder).network
    state = torch.randn(3, network.document_encoder.state_size)
    assert_same_hidden_states(network, batch_of(network.options.words, [6, 0, 9]), state)


def test_long_sentences_are_cut_at_the_same_places(make_reader):
    network = make_reader(encoder="lookahead").network
    documents = batch_of(network.options.words, [LONGEST_LOOK + 20, 3 * LONGEST_LOOK])
    documents.sentence_ends[:] = False
    documents.sentence_ends[:, 7] = True
    assert_same_hidden_states(network, documents)


@pytest.mark.parametrize("encoder", ["lookahead", "bidirectional"])
def test_directions_may_be_added(make_reader, encoder):
    network = make_reader(encoder=encoder).network
    use_added_directions(network)
    assert_same_hidden_states(network, batch_of(network.options.words, [6, 9]))
    assert_same_queries(network, questions_of(network.options.words, [6, 9], [2, 8]))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("encoder", [*GRUS, "second-order"])
def test_queries_are_those_of_the_plain_encoder(make_reader, encoder, positive):
    network = make_reader(encoder=encoder, positive=positive).network
    assert_same_queries(network, questions_of(network.options.words, [9, 1, 5, 5], [8, 0, 0, 2]))


@pytest.mark.parametrize("encoder", GRUS)
def test_tables_are_used_where_there_are_grus(make_reader, encoder, monkeypatch):
    network = make_reader(encoder=encoder).network

    def refuse(*_, **__):
        pytest.fail("the network's own encoder was called")

    monkeypatch.setattr(network.document_encoder, "forward", refuse)
    monkeypatch.setattr(network.question_encoder, "forward", refuse)
    with torch.inference_mode():
        FastTextEncoder(network).hidden_states(batch_of(network.options.words, [4, 2]))
        FastTextEncoder(network).queries(questions_of(network.options.words, [4, 2], [1, 0]))


def test_few_texts_are_read_by_the_networks_own_encoder(make_reader, monkeypatch):
    monkeypatch.setattr(fast_encoding, "TABLES_FROM", 3)
    network = make_reader().network
    monkeypatch.setattr(fast_encoding, "_TabledGRU", lambda *_: pytest.fail("tables were made"))
    with torch.inference_mode():
        FastTextEncoder(network).hidden_states(batch_of(network.options.words, [4, 2]))


def test_tables_follow_the_weights_of_the_network(make_reader):
    reader = make_reader()
    before = reader.read("Then Ann met Bob.")
    with torch.no_grad():
        reader.network.document_encoder.forward_gru.weight_hh_l0.add_(0.5)
    assert abs(reader.read("Then Ann met Bob.").numbers - before.numbers).max() > 1e-3
