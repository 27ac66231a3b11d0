"""Every encoder reads each text as if it were alone: not its padding, and ahead only as far as its kind says."""

import pytest
import torch

from attar.paper.encoders import make_encoder

LENGTHS = torch.tensor([9, 0, 1, 5])
every_encoder = pytest.mark.parametrize("name", ["gru", "second-order", "lookahead", "bidirectional"])


def texts(batch=4, n=9):
    return torch.randn(batch, n, 3, dtype=torch.float64)


def some_ends(batch=4, n=9):
    return torch.rand(batch, n) < 0.3


def made(name):
    return make_encoder(name, 3, 5).double()


def states_of(module, name, tokens, ends):
    """The states of one text `[n, d]`, sentence by sentence and token by token."""

    def run(gru, row):
        return gru(row[None])[0][0] if len(row) else row.new_zeros(0, gru.hidden_size)

    if name == "second-order":
        h, C, states = torch.zeros(5).double(), torch.zeros(5, 5).double(), [torch.zeros(0, 5).double()]
        for x in tokens:
            r = C @ h
            h = module.cell(torch.cat([x, r / (1 + r.square().mean()).sqrt()]), h)
            C = C + torch.outer(h, h)
            states.append(h[None])
        return torch.cat(states)
    forward = run(module.forward_gru, tokens)
    if name == "gru":
        return forward
    stops = [t + 1 for t in range(len(tokens)) if ends[t]] if name == "lookahead" else []
    sentences = torch.tensor_split(tokens, stops)
    back = torch.cat([run(module.backward_gru, sentence.flip(0)).flip(0) for sentence in sentences])
    return torch.cat([forward, back], 1)


@every_encoder
class TestEveryEncoder:
    def test_ragged_batches_equal_single_texts(self, name):
        module, x, ends = made(name), texts(), some_ends()
        padded = x.masked_fill((torch.arange(9) >= LENGTHS[:, None])[:, :, None], torch.nan)
        hidden = module(padded, LENGTHS, ends)
        for i, length in enumerate(LENGTHS.tolist()):
            torch.testing.assert_close(hidden[i, :length], states_of(module, name, x[i, :length], ends[i]))
            assert not hidden[i, length:].any()

    def test_gradients_reach_every_token_and_parameter_and_no_padding(self, name):
        module = made(name)
        outside = torch.arange(9) >= LENGTHS[:, None]
        x = texts().masked_fill(outside[:, :, None], torch.nan).requires_grad_()
        module(x, LENGTHS, some_ends()).square().sum().backward()
        for parameter in module.parameters():
            assert parameter.grad.isfinite().all()
            assert parameter.grad.any()
        assert torch.equal(x.grad.any(2), ~outside)

    @pytest.mark.parametrize(("batch", "n"), [(0, 4), (2, 0)], ids=["no texts", "no tokens"])
    def test_empty_dimensions_are_allowed(self, name, batch, n):
        lengths = torch.full((batch,), n)
        assert made(name)(texts(batch, n), lengths, some_ends(batch, n)).shape == (batch, n, 5)


def test_the_second_order_memory_is_summed_in_float32():
    module, x = make_encoder("second-order", 3, 5).bfloat16(), torch.randn(1, 400, 3)
    rounded = module(x.bfloat16(), torch.tensor([400]))
    exact = module.float()(x, torch.tensor([400]))
    torch.testing.assert_close(rounded.float(), exact, atol=0.1, rtol=0.1)


def test_looking_ahead_ends_with_the_sentence():
    module, x = made("lookahead"), texts(1, 6).requires_grad_()
    ends = torch.tensor([[False, False, True, False, False, True]])
    module(x, torch.tensor([6]), ends)[0, 1].sum().backward()
    assert x.grad[0].any(1).tolist() == [True, True, True, False, False, False]
