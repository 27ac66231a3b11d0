"""`phrases` keeps one vector per phrase, that of the phrase network: ragged, extended at any split, merged."""

import pytest
import torch

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS, attention
from attar.nn.mechanisms.base import Memories
from attar.nn.mechanisms.phrases import PhraseAttention
from attar.nn.phrases import PhraseNetwork, valid_spans
from attar.options import PhraseOptions, TransformerShape

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}
NONE = [-1, -1]


def trained(size, **options):
    """A mechanism in float64 with a bias."""
    module = attention("phrases", size, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def numbers(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def some_spans(batch, n, count):
    """Phrases of one to three tokens; one row in five has none."""
    first = torch.randint(n, (batch, count))
    spans = torch.stack([first, (first + torch.randint(3, (batch, count))).clamp(max=n - 1)], 2)
    return spans.masked_fill((torch.rand(batch, count) < 0.2)[:, :, None], -1)


def expected_scores(module, hidden, spans, queries):
    """C_p · q of one document, phrase by phrase in float64; what ends after the last token is no phrase."""
    A, b, B = module.vectors.first.weight, module.vectors.first.bias, module.vectors.last.weight
    scores = torch.zeros(len(queries), len(spans), dtype=torch.float64)
    for at, (first, last) in enumerate(spans.tolist()):
        if first >= 0 and last < len(hidden):
            vector = A @ hidden[first].double() + b + B @ hidden[last].double()
            scores[:, at] = queries.double() @ vector
    return scores.detach()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("size", "k"), [(1, 1), (3, 8), (8, 5)])
def test_scores_of_ragged_documents_follow_the_equation(size, k, dtype):
    module, lengths = trained(size, vector_size=k), [7, 0, 1, 4]
    hidden, queries = numbers(4, 7, size, dtype=dtype), numbers(4, 2, k, dtype=dtype)
    spans = some_spans(4, 7, 6)
    padded = hidden.clone()
    for i, length in enumerate(lengths):
        padded[i, length:] = torch.nan
    memories = module.encode(padded, lengths, spans=spans)
    scores = module.lookup(memories, queries).detach()
    assert memories.tokens.tolist() == lengths
    assert memories.state.shape == (4, 6, k)
    assert memories.state.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert scores.dtype == dtype
    for i, length in enumerate(lengths):
        expected = expected_scores(module, hidden[i, :length], spans[i], queries[i])
        error = (scores[i].double() - expected).abs().max()
        assert error <= TOLERANCE[dtype] * max(1.0, float(expected.abs().max())), f"{length} tokens"


@pytest.mark.parametrize("split", [0, 1, 3, 6, 7])
def test_extending_and_merging_at_any_split_equal_encoding_at_once(split):
    module, hidden, lengths = trained(4, vector_size=3), numbers(4, 7, 4), torch.tensor([7, 0, 3, 5])
    # Phrases of one part each: those of the first, then those of the second, counted from its own start.
    first = some_spans(4, split, 3) if split else torch.full((4, 3, 2), -1)
    second = some_spans(4, 7 - split, 2) if split < 7 else torch.full((4, 2, 2), -1)
    moved = torch.where(second < 0, second, second + split)
    whole = module.encode(hidden, lengths, spans=torch.cat([first, moved], 1))
    start = module.encode(hidden[:, :split], lengths.clamp(max=split), spans=first)
    rest = hidden[:, split:], (lengths - split).clamp(min=0)
    extended = module.extend(start, *rest, spans=second)
    merged = module.merge(start, module.encode(*rest, spans=second))
    for memories in (extended, merged):
        assert torch.equal(memories.tokens, whole.tokens)
        torch.testing.assert_close(memories.state, whole.state)


def test_rows_without_a_phrase_are_zeros_whatever_the_states_are():
    module, hidden = trained(3), numbers(1, 4, 3)
    hidden[0, 0] = torch.nan
    memories = module.encode(hidden, spans=torch.tensor([[NONE, [1, 3], NONE]]))
    assert memories.state[0].any(1).tolist() == [False, True, False]
    assert memories.state.isfinite().all()


def test_the_vectors_are_those_of_the_phrase_network():
    shape = TransformerShape(vocabulary=11, size=8, layers=1, heads=2, feedforward=12, positions=16)
    network = PhraseNetwork(PhraseOptions(size=4, word_size=4, match="none", encoder=shape)).eval()
    module = attention("phrases", 8, vector_size=4)
    module.vectors.load_state_dict(network.state_dict(), strict=False)
    ids, inside = torch.randint(0, 11, (1, 9)), torch.ones(1, 9, dtype=torch.bool)
    sentences = torch.zeros(1, 9).long()
    hidden = network.encoder(ids)
    texts, questions = network.encode_texts(ids, inside), network.encode_questions(ids, inside)
    valid = valid_spans(sentences, inside)
    scores = network.score(texts, questions, sentences, valid) - network.priors(texts, valid)
    first, length = valid[0].nonzero(as_tuple=True)
    found = module(hidden, questions.queries[None], spans=torch.stack([first, first + length], 1)[None])
    torch.testing.assert_close(found[0, 0] / 2, scores[0, first, length])  # √k is 2


def test_gradients_reach_all_inputs_and_no_padding():
    module = trained(3)
    hidden, queries = numbers(2, 5, 3), numbers(2, 2, 3)
    hidden[1, 2:] = torch.nan
    hidden.requires_grad_(), queries.requires_grad_()
    spans = torch.tensor([[[0, 4], [1, 1], NONE], [[0, 1], [1, 3], [4, 4]]])
    module(hidden, queries, [5, 2], spans=spans).square().sum().backward()
    for tensor in (hidden, queries, *module.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.any()
    assert hidden.grad[0].any(1).tolist() == [True, True, False, False, True]
    assert not hidden.grad[1, 2:].any()


def test_gradients_through_extend_equal_finite_differences():
    module, queries = trained(2, vector_size=3), numbers(2, 1, 3)
    spans = torch.tensor([[[0, 2], NONE], [[0, 0], [1, 2]]])

    def scores(hidden):
        memories = module.encode(hidden, [3, 1], spans=spans)
        return module.lookup(module.extend(memories, hidden, spans=spans), queries)

    assert torch.autograd.gradcheck(scores, (numbers(2, 3, 2).requires_grad_(),))


def test_lookups_go_through_vmap():
    module, states, queries = attention("phrases", 3), torch.randn(5, 2, 4, 3), torch.randn(5, 2, 1, 3)
    memories = Memories.__new__(Memories)
    memories.__dict__.update(state=states, tokens=torch.full((5, 2), 9))
    expected = [
        module.lookup(Memories(s, torch.tensor([9, 9])), q) for s, q in zip(states, queries, strict=True)
    ]
    torch.testing.assert_close(torch.func.vmap(module.lookup)(memories, queries), torch.stack(expected))


@pytest.mark.parametrize(("batch", "n", "p", "m"), [(0, 4, 3, 2), (2, 0, 3, 2), (2, 4, 0, 2), (2, 4, 3, 0)])
def test_empty_dimensions_are_allowed(batch, n, p, m):
    spans = torch.full((batch, p, 2), -1 if n == 0 else 0)
    scores = attention("phrases", 3)(torch.randn(batch, n, 3), torch.randn(batch, m, 3), spans=spans)
    assert scores.shape == (batch, m, p)
    assert n or not scores.any()


def test_is_made_by_name():
    assert isinstance(attention("phrases", 3), PhraseAttention)
    assert "phrases" not in (*MECHANISMS, *COPY_MECHANISMS)  # a cloze network has no phrases to write


@pytest.mark.parametrize("make", [{"device": "meta"}, {"dtype": torch.float64}], ids=str)
def test_parameters_are_made_on_the_device_and_in_the_dtype(make):
    for parameter in attention("phrases", 4, **make).parameters():
        assert (parameter.is_meta, parameter.dtype) == ("device" in make, make.get("dtype", torch.float32))


@pytest.mark.usefixtures("unchecked_shapes")
def test_invalid_arguments_are_refused():
    module, hidden, spans = attention("phrases", 4), torch.zeros(2, 5, 4), torch.zeros(2, 3, 2).long()
    memories = module.encode(hidden, spans=spans)
    with pytest.raises(
        OptionError, match=r"spans: expected the first and last token of each phrase \[B, p, 2\]"
    ):
        module.encode(hidden)
    with pytest.raises(DtypeError, match=r"spans: expected whole numbers, got torch\.float32"):
        module.encode(hidden, spans=spans.float())
    with pytest.raises(ShapeError, match=r"spans: expected \[2, p, 2\], got \[2, 3, 1\]"):
        module.encode(hidden, spans=spans[:, :, :1])
    for wrong in ([2, 1], [0, 5], [-2, -2], [-1, 3], [2, -1]):
        changed = spans.clone()
        changed[1, 2] = torch.tensor(wrong)
        with pytest.raises(
            ShapeError, match=rf"spans: expected first ≤ last among 5 tokens.*{wrong[0]}, {wrong[1]}"
        ):
            module.encode(hidden, spans=changed)
    with pytest.raises(DeviceError, match="spans: expected a tensor on cpu, got meta"):
        module.encode(hidden, spans=spans.to("meta"))
    with pytest.raises(ShapeError, match=r"memories.tokens: expected \[3\], got \[2\]"):
        module.extend(memories, torch.zeros(3, 5, 4), spans=torch.zeros(3, 3, 2).long())
    other = attention("phrases", 4, vector_size=2).encode(hidden, spans=spans)
    with pytest.raises(ShapeError, match=r"memories.state: expected \[2, 3, 4\], got \[2, 3, 2\]"):
        module.merge(memories, other)
    with pytest.raises(ShapeError, match="queries: expected"):
        module.lookup(memories, torch.zeros(2, 1, 3))
    with pytest.raises(OptionError, match="vector_size: expected a whole number from 1 up, got 0"):
        attention("phrases", 4, vector_size=0)
