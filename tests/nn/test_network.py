"""The whole network: a document is read once, and every question on it is answered as if it were the only one."""

from dataclasses import replace

import pytest
import torch

from attar.errors import AttarError, OptionError
from attar.nn.encoders import ENCODERS
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.nn.network import NAME_SCALE, WORD_SCALE, Documents, Network, Questions
from attar.nn.network_options import NetworkOptions

FIRST, ENTITIES, WORDS, PLACEHOLDER = 3, 6, 20, 2
LENGTHS = [9, 4, 7]
MAKES = [{"mechanism": name} for name in (*MECHANISMS, *COPY_MECHANISMS)] + [
    {"mechanism": "softmax", "head": "copy"},
    {"mechanism": "named", "positive": True},
    {"mechanism": "named", "cooccurrence": True},
]
IDS = [" ".join(map(str, make.values())).replace("True", list(make)[-1]) for make in MAKES]
every_network = pytest.mark.parametrize("make", MAKES, ids=IDS)
# Networks differ most by mechanism: `make quick` tries each with the paper's encoder only.
every_encoder = pytest.mark.parametrize(
    "encoder", [each if each == "gru" else pytest.param(each, marks=pytest.mark.slow) for each in ENCODERS]
)


@pytest.fixture(autouse=True)
def few_common_words(monkeypatch):
    """So that the words of a small vocabulary are counted, too."""
    monkeypatch.setattr("attar.nn.cooccurrence.COMMON", 2)


def made(**options):
    """A network in float64 whose parameters are no longer where they started."""
    network = Network(NetworkOptions(WORDS, ENTITIES, embedding_size=5, hidden_size=4, **options)).double()
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
    ids = torch.randint(FIRST + ENTITIES, WORDS, (batch, n))
    ids = torch.where(names >= 0, FIRST + candidates.gather(1, names.clamp(min=0)), ids)
    lengths = torch.tensor(lengths, dtype=torch.int64)
    inside = torch.arange(n) < lengths[:, None]
    ends = (torch.arange(n) % 3 == 2).expand(batch, n)
    return Documents(ids * inside, lengths, ends & inside, names.masked_fill(~inside, -1), candidates)


def some_questions(documents, rows, width=6):
    """One question on each of some documents, which may repeat."""
    turns = [rows[:at].count(row) for at, row in enumerate(rows)]
    most = max(map(rows.count, rows), default=1)
    lengths = torch.randint(3, width + 1, (len(rows),))
    blanks = (torch.rand(len(rows)) * lengths).long()
    ids = torch.randint(FIRST, WORDS, (len(rows), width)) * (torch.arange(width) < lengths[:, None])
    ids[torch.arange(len(rows)), blanks] = PLACEHOLDER
    return Questions(
        ids,
        lengths,
        blanks,
        torch.tensor(rows, dtype=torch.int64),
        torch.tensor([row * most + turn for row, turn in zip(rows, turns, strict=True)], dtype=torch.int64),
        most,
        torch.rand(len(rows), documents.candidates.shape[1]) < 0.4,
    )


def question(questions, q, row=None):
    """One question of a batch, on the document that has the row now."""
    row = int(questions.documents[q]) if row is None else row
    one = torch.tensor([row])
    part = {name: getattr(questions, name)[q : q + 1] for name in ("ids", "lengths", "blanks", "asked")}
    return Questions(**part, documents=one, places=one, most=1)


def document(documents, row):
    """One document of a batch, without its padding."""
    length = int(documents.lengths[row])
    part = {name: getattr(documents, name)[row : row + 1] for name in ("lengths", "candidates")}
    tokens = {
        name: getattr(documents, name)[row : row + 1, :length] for name in ("ids", "sentence_ends", "names")
    }
    return Documents(**part, **tokens)


@every_network
@every_encoder
class TestEveryNetwork:
    def test_trains_a_step_with_finite_gradients_for_all_parameters(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents()
        questions = some_questions(documents, [0, 0, 2, 1, 0])
        scores = network(documents, questions)
        torch.nn.functional.cross_entropy(scores, torch.tensor([0, 3, 1, 1, 1])).backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            # `none` keeps the last state alone, and the GRU from behind has read nothing before that one.
            unread = make["mechanism"] == "none" and name == "document_encoder.backward_gru.weight_hh_l0"
            if (
                name != "cooccurrence.words"
            ):  # whether a question shares a word with a candidate is chance here
                assert parameter.grad.any() != unread, name

    def test_scores_are_minus_infinity_where_there_is_no_candidate_and_only_there(self, make, encoder):
        documents = some_documents()
        questions = some_questions(documents, [0, 0, 2, 1])
        scores = made(encoder=encoder, **make)(documents, questions)
        missing = (documents.candidates < 0)[questions.documents]
        assert torch.equal(scores == -torch.inf, missing)
        assert scores[~missing].isfinite().all()

    def test_a_batch_of_questions_equals_single_questions(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents()
        questions = some_questions(documents, [0, 2, 2, 1, 2])
        together = network(documents, questions)
        for q in range(5):
            torch.testing.assert_close(network(documents, question(questions, q))[0], together[q])

    def test_a_batch_of_documents_equals_single_documents(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents()
        questions = some_questions(documents, [0, 1, 2])
        together = network(documents, questions)
        for row in range(3):
            alone = network(document(documents, row), question(questions, row, row=0))
            torch.testing.assert_close(alone[0], together[row])

    def test_padding_does_not_leak(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents()
        questions = some_questions(documents, [0, 1, 2])
        behind = torch.arange(9) >= documents.lengths[:, None]
        spoilt = replace(
            documents,
            ids=documents.ids.masked_fill(behind, FIRST),
            names=documents.names.masked_fill(behind, 1),
            sentence_ends=documents.sentence_ends | behind,
        )
        after = torch.arange(6) >= questions.lengths[:, None]
        asked = replace(questions, ids=questions.ids.masked_fill(after, FIRST + 1))
        torch.testing.assert_close(network(spoilt, asked), network(documents, questions))

    def test_takes_a_batch_without_questions(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents()
        assert network(documents, some_questions(documents, [])).shape == (0, 4)

    def test_takes_a_batch_without_documents(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents([], 0)
        assert network(documents, some_questions(documents, [])).shape == (0, 4)

    def test_an_empty_document_gives_finite_gradients(self, make, encoder):
        network, documents = made(encoder=encoder, **make), some_documents([9, 0])
        documents = replace(documents, candidates=torch.tensor([[2, 4, -1, 5], [-1] * 4]))
        scores = network(documents, some_questions(documents, [0, 0]))
        torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), name


@every_network
def test_candidates_in_another_order_have_the_same_scores(make):
    network, documents = made(**make), some_documents()
    questions = some_questions(documents, [0, 1, 2, 0])
    order = torch.tensor([3, 0, 2, 1])
    place = torch.cat([order.argsort(), torch.tensor([-1])])
    turned = replace(documents, candidates=documents.candidates[:, order], names=place[documents.names])
    asked = replace(questions, asked=questions.asked[:, order])
    torch.testing.assert_close(network(turned, asked), network(documents, questions)[:, order])


@every_network
@pytest.mark.parametrize("encoder", ["gru", "lookahead", "second-order"])
@pytest.mark.parametrize("split", [3, 6])
def test_continuing_equals_reading_at_once(make, encoder, split):
    network, documents = made(encoder=encoder, **make), some_documents()

    def part(tokens, lengths):
        cut = {name: getattr(documents, name)[:, tokens] for name in ("ids", "sentence_ends", "names")}
        return replace(documents, **cut, lengths=lengths)

    first, state = network.read(part(slice(0, split), documents.lengths.clamp(max=split)))
    rest = part(slice(split, 9), (documents.lengths - split).clamp(min=0))
    memories, last = network.read(rest, state=state, memories=first)
    whole, end = network.read(documents)
    queries = torch.rand(3, 2, 4).double()
    assert torch.equal(memories.tokens, whole.tokens)
    torch.testing.assert_close(last, end)
    torch.testing.assert_close(
        network.mechanism.lookup(memories, queries), network.mechanism.lookup(whole, queries)
    )


def test_a_bidirectional_network_refuses_a_state():
    network, documents = made(encoder="bidirectional"), some_documents()
    memories, state = network.read(documents)
    with pytest.raises(AttarError, match="depend on text still to come"):
        network.read(documents, state=state, memories=memories)


@every_encoder
def test_a_query_depends_on_both_sides_of_the_blank(encoder):
    network = made(encoder=encoder)
    ids, lengths, blanks = torch.tensor([[9, PLACEHOLDER, 10]]), torch.tensor([3]), torch.tensor([1])
    query = network.ask(ids, lengths, blanks)
    for at in (0, 2):
        changed = ids.clone()
        changed[0, at] = 15
        assert not torch.allclose(network.ask(changed, lengths, blanks), query)


def test_the_attention_sum_is_the_softmax_weight_of_each_names_tokens():
    network, documents = made(mechanism="softmax", head="copy"), some_documents()
    memories, _ = network.read(documents)
    queries = torch.randn(3, 2, 4).double()
    sums = network.attention_sum(memories, queries, documents)
    for row, length in enumerate(LENGTHS):
        weights = (queries[row] @ memories.state[row, :length].T).softmax(1)
        for name in range(4):
            expected = weights[:, documents.names[row, :length] == name].sum(1)
            torch.testing.assert_close(sums[row, :, name], expected)


def test_positive_networks_write_no_negative_state_and_ask_positive_queries():
    network, documents = made(mechanism="named", positive=True), some_documents()
    questions = some_questions(documents, [0, 1, 2])
    memories, _ = network.read(documents)
    assert (memories.state >= 0).all()
    assert (network.ask(questions.ids, questions.lengths, questions.blanks) > 0).all()


def test_initial_embeddings_of_names_are_large_of_words_small_of_padding_zero():
    weight = Network(NetworkOptions(4000, 1000, embedding_size=20, hidden_size=4)).embedding.weight
    assert not weight[0].any()
    assert weight[FIRST : FIRST + 1000].std().item() == pytest.approx(NAME_SCALE, rel=0.05)
    assert weight[FIRST + 1000 :].std().item() == pytest.approx(WORD_SCALE, rel=0.05)


def test_names_in_the_question_matter_only_with_the_asked_option():
    documents = some_documents()
    questions = some_questions(documents, [0, 1, 2])
    turned = replace(questions, asked=~questions.asked)
    for asked in (True, False):
        network = made(asked=asked)
        assert torch.equal(network(documents, questions), network(documents, turned)) is not asked


def test_dropout_is_for_training_only():
    network, documents = made(dropout=0.5), some_documents()
    questions = some_questions(documents, [0, 1, 2])
    assert not torch.equal(network(documents, questions), network(documents, questions))
    network.eval()
    assert torch.equal(network(documents, questions), network(documents, questions))


def test_to_moves_ids_and_leaves_lengths_sentence_ends_and_names_on_the_cpu():
    documents = some_documents()
    questions = some_questions(documents, [0, 1]).to("meta")
    documents = documents.to("meta")
    assert documents.ids.is_meta
    assert documents.candidates.is_meta
    for left in (documents.lengths, documents.sentence_ends, documents.names):
        assert not left.is_meta
    assert questions.ids.is_meta
    assert not questions.lengths.is_meta


class TestOptions:
    @pytest.mark.parametrize(
        ("mechanism", "head"),
        [("gated", "paper"), ("softmax", "paper"), ("keyed", "copy"), ("named", "copy")],
    )
    def test_the_default_head_depends_on_the_mechanism(self, mechanism, head):
        assert NetworkOptions(9, 2, mechanism=mechanism).head == head

    @every_network
    def test_options_are_the_same_after_json(self, make):
        options = NetworkOptions(9, 2, **make)
        assert NetworkOptions.from_json(options.to_json()) == options

    def test_join_sum_makes_both_directions_of_full_size(self):
        added = NetworkOptions(9, 2, encoder="lookahead", join="sum", hidden_size=4, embedding_size=3)
        assert NetworkOptions.from_json(added.to_json()) == added
        network = Network(added)
        document, question = network.document_encoder, network.question_encoder
        assert document.forward_gru.hidden_size == question.backward_gru.hidden_size == 4

    def test_head_size_may_exceed_the_hidden_size(self):
        wide = NetworkOptions(9, 2, hidden_size=4, embedding_size=3, head_size=7)
        assert NetworkOptions.from_json(wide.to_json()) == wide
        assert Network(wide).head.entities.in_features == 7

    def test_later_options_are_left_out_of_json_at_their_defaults(self):
        assert {"company", "join", "head_size"}.isdisjoint(NetworkOptions(9, 2).to_json())

    def test_unknown_options_are_refused(self):
        with pytest.raises(
            OptionError, match=r"network option: expected one of asked, .*, got colour, taste"
        ):
            NetworkOptions.from_json({"words": 9, "entities": 2, "taste": 1, "colour": 2})

    @pytest.mark.usefixtures("unchecked_shapes")
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"mechanism": "magic"}, "mechanism: expected none or softmax or .* got 'magic'"),
            ({"encoder": "lstm"}, "encoder: expected gru or lookahead or .* got 'lstm'"),
            ({"head": "tail"}, "head: expected paper or copy, got 'tail'"),
            ({"encoder": "lookahead", "join": "max"}, "join: expected halves or sum, got 'max'"),
            ({"join": "sum"}, "encoder with a join: expected lookahead or bidirectional, got 'gru'"),
            ({"dropout": 1.0}, "dropout: expected a share from 0 to below 1, got 1.0"),
            ({"dropout": -0.1}, "dropout: expected a share from 0 to below 1, got -0.1"),
            ({"head_size": -1}, "head_size: expected 0 or more, got -1"),
            ({"head_size": 9, "mechanism": "named"}, "head with a size: expected paper, got 'copy'"),
            ({"head": "copy"}, "copy head: expected keyed or named or softmax, got 'gated'"),
            ({"head": "paper", "mechanism": "named"}, "paper's head: expected none or .* got 'named'"),
            ({"positive": True, "mechanism": "keyed"}, "positive keys: expected named, got 'keyed'"),
            ({"scale": "cube"}, "scale: expected None, 'sqrt' or 'mean', got 'cube'"),
            ({"hidden_size": 0}, "hidden_size: expected 1 or more, got 0"),
            ({"embedding_size": 0}, "embedding_size: expected 1 or more, got 0"),
        ],
        ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
    )
    def test_invalid_values_are_refused_in_one_line(self, options, says):
        with pytest.raises(OptionError, match=says) as refused:
            Network(NetworkOptions(9, 2, **options))
        assert "\n" not in str(refused.value)


def test_print_shows_positive_keys() -> None:
    positive = NetworkOptions(
        words=9, entities=2, mechanism="named", embedding_size=3, hidden_size=2, positive=True
    )
    assert "NamedAttention(\n    size=2, positive=True\n" in repr(Network(positive))
