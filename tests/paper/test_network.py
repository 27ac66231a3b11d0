"""The whole network: a document is read once, and every question on it is answered as if it were the only one."""

from dataclasses import replace

import pytest
import torch

from attar.paper.network import Documents, Network, PaperHead, Questions
from attar.paper.options import NetworkOptions
from attar.paper.words import FIRST_ENTITY, PLACEHOLDER

ENTITIES = 6
WORDS = 20
LENGTHS = [9, 4, 7]
MECHANISMS = ("none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed", "keyed-ridge")
every_network = pytest.mark.parametrize("mechanism", MECHANISMS)


def made(**options):
    """A network in float64 whose parameters are no longer where they started."""
    given = NetworkOptions(embedding_size=5, hidden_size=4, **options)
    network = Network(given, WORDS, ENTITIES).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        network.embedding.weight[0] = 0
    return network


def some_documents(lengths=LENGTHS, n=9):
    """Documents of words and of names; the third of four candidates is not in the text, the last row has two."""
    batch = len(lengths)
    candidates = torch.rand(batch, ENTITIES).argsort(1)[:, :4]
    candidates[:, 2] = -1
    candidates[-1:, 3] = -1
    names = torch.randint(0, 2, (batch, n))
    names[torch.rand(batch, n) < 0.5] = -1
    names[:, :1], names[:, 1:2], names[:-1, 2:3] = 0, 1, 3
    ids = torch.randint(FIRST_ENTITY + ENTITIES, WORDS, (batch, n))
    ids = torch.where(names >= 0, FIRST_ENTITY + candidates.gather(1, names.clamp(min=0)), ids)
    lengths = torch.tensor(lengths, dtype=torch.int64)
    inside = torch.arange(n) < lengths[:, None]
    return Documents(ids * inside, lengths, names.masked_fill(~inside, -1), candidates)


def some_questions(documents, rows, width=6):
    """One question on each of some documents, which may repeat."""
    turns = [rows[:at].count(row) for at, row in enumerate(rows)]
    most = max(map(rows.count, rows), default=1)
    lengths = torch.randint(3, width + 1, (len(rows),))
    blanks = (torch.rand(len(rows)) * lengths).long()
    ids = torch.randint(FIRST_ENTITY, WORDS, (len(rows), width)) * (torch.arange(width) < lengths[:, None])
    ids[torch.arange(len(rows)), blanks] = PLACEHOLDER
    places = [row * most + turn for row, turn in zip(rows, turns, strict=True)]
    asked = torch.rand(len(rows), documents.candidates.shape[1]) < 0.4
    both = (torch.tensor(numbers, dtype=torch.int64) for numbers in (rows, places))
    return Questions(ids, lengths, *both, most, asked)


def question(questions, q, row=None):
    """One question of a batch, on the document that has the row now."""
    one = torch.tensor([int(questions.documents[q]) if row is None else row])
    part = {name: getattr(questions, name)[q : q + 1] for name in ("ids", "lengths", "asked")}
    return Questions(**part, documents=one, places=one, most=1)


def document(documents, row):
    """One document of a batch, without its padding."""
    length = int(documents.lengths[row])
    part = {name: getattr(documents, name)[row : row + 1] for name in ("lengths", "candidates")}
    names = ("ids", "names")
    return Documents(**part, **{name: getattr(documents, name)[row : row + 1, :length] for name in names})


@every_network
class TestEveryNetwork:
    def test_trains_a_step_with_finite_gradients_for_all_parameters(self, mechanism):
        network, documents = made(mechanism=mechanism), some_documents()
        scores = network(documents, some_questions(documents, [0, 0, 2, 1, 0]))
        torch.nn.functional.cross_entropy(scores, torch.tensor([0, 3, 1, 1, 1])).backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any(), name

    def test_a_batch_equals_single_documents_and_questions(self, mechanism):
        network, documents = made(mechanism=mechanism), some_documents()
        questions = some_questions(documents, [0, 2, 2, 1, 2])
        together = network(documents, questions)
        for q, row in enumerate(questions.documents.tolist()):
            torch.testing.assert_close(network(documents, question(questions, q))[0], together[q])
            alone = network(document(documents, row), question(questions, q, row=0))
            torch.testing.assert_close(alone[0], together[q])

    def test_padding_does_not_leak(self, mechanism):
        network, documents = made(mechanism=mechanism), some_documents()
        questions = some_questions(documents, [0, 1, 2])
        behind = torch.arange(9) >= documents.lengths[:, None]
        spoilt = replace(
            documents,
            ids=documents.ids.masked_fill(behind, FIRST_ENTITY),
            names=documents.names.masked_fill(behind, 1),
        )
        after = torch.arange(6) >= questions.lengths[:, None]
        asked = replace(questions, ids=questions.ids.masked_fill(after, FIRST_ENTITY + 1))
        torch.testing.assert_close(network(spoilt, asked), network(documents, questions))


def test_the_papers_head_follows_its_equation():
    head, candidates = PaperHead(4, 7).double(), torch.tensor([[6, 0], [2, 2], [5, 1]])
    readouts, queries = torch.randn(2, 3, 4, dtype=torch.float64)
    scores = head(readouts, queries, candidates)
    for q in range(3):
        W_r, W_q, b = head.of_readout.weight, head.of_query.weight, head.of_query.bias
        mixed = torch.tanh(W_r @ readouts[q] + W_q @ queries[q] + b)
        expected = head.entities.weight @ mixed + head.entities.bias
        torch.testing.assert_close(scores[q], expected[candidates[q]])
