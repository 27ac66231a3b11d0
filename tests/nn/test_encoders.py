"""Every encoder keeps one promise: padding is not read, and reading goes on from the state it gave."""

import copy
import pickle

import pytest
import torch

from attar.errors import AttarError, DtypeError, OptionError, ShapeError
from attar.nn.encoders import ENCODERS, LONGEST_LOOK, encoder
from attar.nn.gru import cut_long_sentences, sort_backward
from attar.nn.transformer import Transformer, cut_windows
from attar.options import TransformerShape

WHOLE = ("bidirectional", "transformer")
STREAMING = tuple(name for name in ENCODERS if name not in WHOLE)
LENGTHS = [9, 0, 1, 5]
MAKES = [(name, {}) for name in ENCODERS] + [
    ("lookahead", {"join": "sum"}),
    ("bidirectional", {"join": "sum"}),
]
IDS = [" ".join([name, *options.values()]) for name, options in MAKES]


def texts(batch=4, n=9, d=3):
    return torch.randn(batch, n, d, dtype=torch.float64)


def some_ends(batch=4, n=9):
    return torch.rand(batch, n) < 0.3


def made(name, **options):
    return encoder(name, 3, 5, **options).double()


def hidden_of(module, tokens, ends):
    """The states of one text `[n, d]`, sentence by sentence and token by token."""

    def run(gru, row):
        return gru(row[None])[0][0] if len(row) else row.new_zeros(0, gru.hidden_size)

    if module.name == "second-order":
        h, C, states = torch.zeros(5).double(), torch.zeros(5, 5).double(), [torch.zeros(0, 5).double()]
        for x in tokens:
            r = C @ h
            h = module.cell(torch.cat([x, r / (1 + r.square().mean()).sqrt()]), h)
            C = C + torch.outer(h, h)
            states.append(h[None])
        return torch.cat(states)
    if module.name == "transformer":
        part, x = module.transformer, module.input(tokens)[None]
        x = part.norm(x + part.positions.weight[: len(tokens)] + part.types.weight[0])
        return part.layers(x)[0] if len(tokens) else x[0]
    forward = run(module.forward_gru, tokens)
    if module.name == "gru":
        return forward
    stops = [t + 1 for t in range(len(tokens)) if ends[t]] if module.name == "lookahead" else []
    sentences = torch.tensor_split(tokens, stops)
    back = torch.cat([run(module.backward_gru, sentence.flip(0)).flip(0) for sentence in sentences])
    return forward + back if module.join == "sum" else torch.cat([forward, back], 1)


@pytest.mark.parametrize(("name", "options"), MAKES, ids=IDS)
class TestEveryEncoder:
    def test_ragged_batches_equal_single_texts(self, name, options):
        module, x, ends = made(name, **options), texts(), some_ends()
        padded = x.clone()
        for i, length in enumerate(LENGTHS):
            padded[i, length:] = torch.nan
        hidden, state = module(padded, LENGTHS, sentence_ends=ends)
        assert hidden.shape == (4, 9, 5)
        assert state.shape == (4, module.state_size)
        for i, length in enumerate(LENGTHS):
            torch.testing.assert_close(hidden[i, :length], hidden_of(module, x[i, :length], ends[i]))
            assert not hidden[i, length:].any()

    def test_reads_whole_rows_without_lengths(self, name, options):
        module, x, ends = made(name, **options), texts(2), some_ends(2)
        for given, told in zip(
            module(x, sentence_ends=ends), module(x, [9, 9], sentence_ends=ends), strict=True
        ):
            torch.testing.assert_close(given, told)

    def test_gradients_reach_every_token_and_parameter_and_no_padding(self, name, options):
        module, x = made(name, **options), texts()
        for i, length in enumerate(LENGTHS):
            x[i, length:] = torch.nan
        hidden, state = module(x.requires_grad_(), LENGTHS, sentence_ends=some_ends())
        (hidden.square().sum() + state.square().sum()).backward()
        for parameter in module.parameters():
            assert parameter.grad.isfinite().all()
            assert parameter.grad.any()
        for i, length in enumerate(LENGTHS):
            assert x.grad[i, :length].any(1).all()
            assert not x.grad[i, length:].any()

    def test_its_parameters_are_saved_and_loaded(self, name, options):
        module, other, x = made(name, **options), made(name, **options), texts()
        other.load_state_dict(module.state_dict())
        assert torch.equal(module(x)[0], other(x)[0])

    def test_its_parameters_survive_a_pickle_and_a_copy(self, name, options):
        module, x = made(name, **options), texts()
        for other in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
            assert list(other.state_dict()) == list(module.state_dict())
            assert torch.equal(module(x)[0], other(x)[0])

    @pytest.mark.parametrize(("batch", "n"), [(0, 4), (2, 0)], ids=["no texts", "no tokens"])
    def test_empty_dimensions_are_allowed(self, name, options, batch, n):
        hidden, state = made(name, **options)(texts(batch, n), sentence_ends=some_ends(batch, n))
        assert hidden.shape == (batch, n, 5)
        assert not state.any()

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_invalid_arguments_are_refused(self, name, options):
        module = made(name, **options)
        with pytest.raises(ShapeError, match=r"x: expected \[B, n, 3\], got \[2, 4, 2\]"):
            module(texts(2, 4, 2))
        with pytest.raises(DtypeError, match="x: expected floating-point"):
            module(texts(2, 4).long())
        with pytest.raises(ShapeError, match="lengths: expected numbers from 0 to 4, got 5"):
            module(texts(2, 4), [5, 0])


@pytest.mark.parametrize("name", STREAMING)
class TestContinuing:
    @pytest.mark.parametrize("split", [0, 1, 4, 8, 9])
    def test_reading_in_two_parts_at_a_sentence_end_equals_reading_at_once(self, name, split):
        module, x, ends = made(name), texts(), some_ends()
        ends[:, split - 1 : split] = True
        lengths = torch.tensor(LENGTHS)
        whole, last = module(x, lengths, sentence_ends=ends)
        first, state = module(x[:, :split], lengths.clamp(max=split), sentence_ends=ends[:, :split])
        rest, end = module(
            x[:, split:], (lengths - split).clamp(min=0), sentence_ends=ends[:, split:], state=state
        )
        torch.testing.assert_close(torch.cat([first, rest], 1), whole)
        torch.testing.assert_close(end, last)

    def test_padding_never_changes_the_state(self, name):
        module, x = made(name), texts()
        _, state = module(x)
        assert torch.equal(module(torch.full_like(x, torch.nan), [0] * 4, state=state)[1], state)
        torch.testing.assert_close(module(x[:, :5])[1], module(x, [5] * 4)[1])

    def test_gradients_flow_through_the_state(self, name):
        module, x = made(name), texts().requires_grad_()
        _, state = module(x[:, :4])
        module(x[:, 4:].detach(), state=state)[0].square().sum().backward()
        assert x.grad[:, :4].any(2).all()

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_another_encoders_state_is_refused(self, name):
        module = made(name)
        with pytest.raises(ShapeError, match=rf"state: expected \[2, {module.state_size}\], got \[2, 4\]"):
            module(texts(2), state=torch.zeros(2, 4))


def test_the_second_order_state_is_h_and_c():
    module, x = made("second-order"), texts(1)
    hidden, state = module(x)
    torch.testing.assert_close(state[:, :5], hidden[:, -1])
    torch.testing.assert_close(state[:, 5:].view(1, 5, 5), hidden.mT @ hidden)


class TestLookingAhead:
    def test_states_depend_on_the_rest_of_their_sentence_only(self):
        module, x = made("lookahead"), texts(1, 6).requires_grad_()
        ends = torch.tensor([[False, False, True, False, False, True]])
        module(x, sentence_ends=ends)[0][0, 1].sum().backward()
        assert x.grad[0].any(1).tolist() == [True, True, True, False, False, False]

    def test_a_text_without_ends_is_one_sentence(self):
        lookahead, bidirectional, x = made("lookahead"), made("bidirectional"), texts()
        bidirectional.load_state_dict(lookahead.state_dict())
        torch.testing.assert_close(lookahead(x, LENGTHS)[0], bidirectional(x, LENGTHS)[0])

    def test_sentence_ends_in_padding_are_ignored(self):
        module, x, ends = made("lookahead"), texts(), some_ends()
        behind = torch.arange(9) >= torch.tensor(LENGTHS)[:, None]
        torch.testing.assert_close(
            module(x, LENGTHS, sentence_ends=ends | behind)[0],
            module(x, LENGTHS, sentence_ends=ends & ~behind)[0],
        )

    def test_backward_order_has_a_step_per_token_of_the_longest_sentence_and_no_padding(self):
        ends = torch.zeros(2, 60, dtype=torch.bool)
        ends[:, 9::10] = True
        source, at_once = sort_backward(ends, [60, 35])
        assert at_once.tolist() == [10] * 5 + [9] * 5
        assert sorted(source.tolist()) == list(range(95))

    def test_a_sentence_is_read_in_parts_of_no_more_than_the_longest_look(self):
        module, n = made("lookahead"), 2 * LONGEST_LOOK + 5
        x, ends = texts(1, n), torch.zeros(1, n, dtype=torch.bool)
        ends[0, 1] = True
        cut = ends.clone()
        cut[0, [1 + LONGEST_LOOK, 1 + 2 * LONGEST_LOOK]] = True
        hidden, _ = module(x, sentence_ends=ends)
        torch.testing.assert_close(hidden[0], hidden_of(module, x[0], cut[0]))

    def test_continuing_after_a_cut_sentence_equals_reading_at_once(self):
        module, first, n = made("lookahead"), LONGEST_LOOK + 7, 2 * LONGEST_LOOK + 9
        x, ends = texts(2, n), torch.zeros(2, n, dtype=torch.bool)
        ends[:, first - 1] = True
        whole, last = module(x, sentence_ends=ends)
        start, state = module(x[:, :first], sentence_ends=ends[:, :first])
        rest, end = module(x[:, first:], sentence_ends=ends[:, first:], state=state)
        torch.testing.assert_close(torch.cat([start, rest], 1), whole)
        torch.testing.assert_close(end, last)

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_invalid_sentence_ends_are_refused(self):
        with pytest.raises(DtypeError, match="sentence_ends: expected true at each sentence's last token"):
            made("lookahead")(texts(), sentence_ends=some_ends().long())
        with pytest.raises(ShapeError, match=r"sentence_ends: expected \[4, 9\], got \[4, 8\]"):
            made("lookahead")(texts(), sentence_ends=some_ends(4, 8))


class TestCuttingLongSentences:
    @pytest.mark.parametrize("longest", [1, 2, 3, 7])
    def test_cuts_sentences_after_the_given_number_of_tokens(self, longest):
        ends = torch.rand(6, 20) < 0.15
        found = cut_long_sentences(ends, longest)
        for row, cut in zip(ends.tolist(), found.tolist(), strict=True):
            read, expected = 0, []
            for end in row:
                read += 1
                expected.append(end or read % longest == 0)
                read = 0 if end else read
            assert cut == expected

    def test_short_sentences_are_unchanged(self):
        ends = torch.tensor([[False, False, True, False, True], [True, True, True, True, True]])
        assert torch.equal(cut_long_sentences(ends, 4), ends)

    def test_the_given_ends_are_not_modified(self):
        ends = torch.zeros(1, 4, dtype=torch.bool)
        assert cut_long_sentences(ends, 2).tolist() == [[False, True, False, True]]
        assert not ends.any()

    @pytest.mark.parametrize(("batch", "n"), [(0, 4), (2, 0)])
    def test_empty_dimensions_are_allowed(self, batch, n):
        assert cut_long_sentences(torch.zeros(batch, n, dtype=torch.bool), 3).shape == (batch, n)


@pytest.mark.parametrize("name", WHOLE)
def test_encoders_that_read_ahead_refuse_a_state(name):
    module = made(name)
    _, state = module(texts())
    assert not module.extends
    with pytest.raises(
        AttarError, match=f"a {name} encoder's states depend on text still to come; use 'lookahead' or 'gru'"
    ):
        module(texts(), state=state)


class TestWindows:
    """A transformer reads whole sentences at a time, as many as it has positions for."""

    def test_are_filled_with_whole_sentences(self):
        ends = torch.zeros(2, 12, dtype=torch.bool)
        ends[0, [1, 3, 4, 8, 11]] = True
        assert cut_windows(ends, [12, 7], 5) == [(0, 0, 5), (0, 5, 9), (0, 9, 12), (1, 0, 5), (1, 5, 7)]

    @pytest.mark.parametrize("longest", [1, 2, 3, 7, 20])
    def test_cover_every_token_once(self, longest):
        ends, lengths = torch.rand(6, 20) < 0.3, [20, 0, 1, 7, 19, 20]
        windows = cut_windows(ends, lengths, longest)
        assert all(0 < stop - start <= longest for _, start, stop in windows)
        read = [(row, at) for row, start, stop in windows for at in range(start, stop)]
        assert read == [(row, at) for row, length in enumerate(lengths) for at in range(length)]

    def test_are_read_as_texts_of_their_own(self):
        module, x = made("transformer", positions=5), texts(2, 12)
        ends = torch.zeros(2, 12, dtype=torch.bool)
        ends[0, [1, 3, 4, 8, 11]] = True
        hidden, _ = module(x, [12, 7], sentence_ends=ends)
        for row, start, stop in [(0, 0, 5), (0, 5, 9), (0, 9, 12), (1, 0, 5), (1, 5, 7)]:
            torch.testing.assert_close(hidden[row, start:stop], hidden_of(module, x[row, start:stop], None))

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_ends_of_another_dtype_are_refused(self):
        with pytest.raises(DtypeError, match="sentence_ends: expected true at each sentence's last token"):
            made("transformer")(texts(), sentence_ends=torch.zeros(4, 9, dtype=torch.int64))


class TestPublishedWeights:
    SHAPE = TransformerShape(vocabulary=11, size=8, layers=2, heads=2, feedforward=12, positions=16)

    def test_the_states_are_those_of_the_transformer_of_the_phrase_reader(self):
        whole, ids = Transformer(self.SHAPE).eval(), torch.randint(0, 11, (3, 9))
        part = encoder("transformer", 8, 8, layers=2, heads=2, feedforward=12, positions=16).eval()
        found = part.transformer.load_state_dict(whole.state_dict(), strict=False)
        assert not found.missing_keys
        assert found.unexpected_keys == ["words.weight"]
        mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
        hidden, _ = part(whole.words(ids), [9, 4, 1])
        torch.testing.assert_close(hidden[mask], whole(ids, mask)[mask])

    def test_the_default_shape_is_that_of_minilm(self):
        made = encoder("transformer", 384, 384, device="meta").transformer.shape
        assert made == TransformerShape(vocabulary=0)


class TestMaking:
    def test_encoders_are_listed_by_name(self):
        assert ENCODERS == ("gru", "lookahead", "bidirectional", "second-order", "transformer")
        assert [encoder(name, 3, 2).name for name in ENCODERS] == list(ENCODERS)

    def test_the_state_size_depends_on_the_encoder(self):
        sizes = [encoder(name, 3, 5).state_size for name in ENCODERS]
        assert sizes == [5, 3, 0, 30, 0]
        assert encoder("lookahead", 3, 5, join="sum").state_size == 5

    def test_prints_its_sizes(self):
        assert "input_size=3, size=5" in repr(encoder("gru", 3, 5))

    @pytest.mark.usefixtures("unchecked_shapes")
    @pytest.mark.parametrize(
        ("name", "size", "options", "says"),
        [
            ("lstm", 3, {}, "encoder: expected one of gru, .* got 'lstm'"),
            ("gru", 0, {}, "size: expected a whole number from 1 up, got 0"),
            ("gru", 3, {"join": "sum"}, "option of 'gru': expected one of device, dtype, got join"),
            ("transformer", 3, {"heads": 2}, "heads: expected a number that divides the size of 3, got 2"),
            ("transformer", 3, {"layers": 0}, "layers: expected a whole number from 1 up, got 0"),
            ("lookahead", 3, {"join": "product"}, "join: expected 'halves' or 'sum'"),
            ("lookahead", 1, {}, "size: expected 2 or more for two halves, got 1; or use join='sum'"),
        ],
    )
    def test_invalid_options_are_refused(self, name, size, options, says):
        with pytest.raises(OptionError, match=says):
            encoder(name, 3, size, **options)


def test_weights_keep_the_names_that_they_have_in_files():
    assert {name.partition(".")[0] for name in made("gru").state_dict()} == {"onward"}
    both = made("lookahead").state_dict()
    assert {name.partition(".")[0] for name in both} == {"onward", "back"}
    made("bidirectional").load_state_dict(both)
