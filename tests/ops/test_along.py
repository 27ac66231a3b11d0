"""Readouts at every position against the loop that they replace."""

import itertools

import pytest
import torch

from attar.errors import DtypeError, OptionError, ShapeError
from attar.ops import along
from attar.ops.along import lookup_along

CHUNK = 4


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(along, "CHUNK", CHUNK)


def inputs(batch=2, n=11, k=3, d=2):
    made = [torch.randn(batch, n, size).double().requires_grad_() for size in (k, d, k)]
    gates = [torch.rand(batch, n).double().requires_grad_() for _ in range(2)]
    return *made, *gates, torch.randn(batch, k, d).double().requires_grad_()


def loop(keys, values, queries, alpha=None, beta=None, initial=None):
    C = keys.new_zeros(len(keys), keys.shape[2], values.shape[2]) if initial is None else initial
    readouts = []
    for t in range(keys.shape[1]):
        C = C if alpha is None else alpha[:, t, None, None] * C
        written = keys[:, t, :, None] * values[:, t, None, :]
        C = C + (written if beta is None else beta[:, t, None, None] * written)
        readouts.append(torch.einsum("bkd,bk->bd", C, queries[:, t]))
    return torch.stack(readouts, 1) if readouts else values


@pytest.mark.parametrize("gated", [False, True], ids=["sums", "gates"])
@pytest.mark.parametrize("start", [False, True], ids=["empty", "continued"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 11], ids="n={}".format)
def test_agrees_with_the_loop_in_values_and_gradients(n, start, gated):
    keys, values, queries, alpha, beta, initial = inputs(n=n)
    options = {"alpha": alpha, "beta": beta} if gated else {}
    options |= {"initial": initial} if start else {}
    leaves = [keys, values, queries, *options.values()]
    found, expected = lookup_along(keys, values, queries, **options), loop(keys, values, queries, **options)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    if n:
        G = torch.randn_like(found)
        for x, y in zip(*(torch.autograd.grad(r, leaves, G) for r in (found, expected)), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, -0.5], ids=["forgets everything", "negative"])
def test_alpha_may_be_any_number(value):
    keys, values, queries, alpha, _, _ = inputs()
    with torch.no_grad():
        alpha[:, [2, 5]] = value
    leaves, G = (keys, values, queries, alpha), torch.randn(2, 11, 2).double()
    results = [f(*leaves[:3], alpha=alpha) for f in (lookup_along, loop)]
    torch.testing.assert_close(*results)
    for x, y in zip(*(torch.autograd.grad(r, leaves, G) for r in results), strict=True):
        torch.testing.assert_close(x, y)


def test_padding_reaches_no_value_and_no_gradient():
    keys, values, queries, alpha, beta, _ = (x.detach() for x in inputs())
    lengths, behind = [11, 6], torch.arange(11) >= torch.tensor([11, 6])[:, None]
    dirty = [x.clone() for x in (keys, values, queries, alpha, beta)]
    for x in dirty:
        x[behind] = torch.nan
        x.requires_grad_()
    found = lookup_along(*dirty[:3], alpha=dirty[3], beta=dirty[4], lengths=lengths)
    expected = loop(keys, values, queries, alpha, beta)
    torch.testing.assert_close(found[~behind], expected[~behind])
    assert not found[behind].any()
    for gradient in torch.autograd.grad(found.square().sum(), dirty):
        assert gradient.isfinite().all()
        assert not gradient[behind].any()


@pytest.mark.parametrize("gated", [False, True], ids=["sums", "gates"])
@pytest.mark.parametrize("places", [[0, 11], [0, 1, 11], [0, 4, 4, 9, 11], [0, 0, 11, 11]], ids=str)
def test_packed_sequences_do_not_meet(places, gated):
    keys, values, queries, alpha, beta, _ = inputs(batch=1)
    gates = (alpha, beta) if gated else (None, None)
    found = lookup_along(
        keys, values, queries, alpha=gates[0], beta=gates[1], cu_seqlens=torch.tensor(places)
    )
    parts = [slice(a, b) for a, b in itertools.pairwise(places) if b > a]
    expected = [
        loop(
            *(x[:, part] for x in (keys, values, queries)),
            *(None if g is None else g[:, part] for g in gates),
        )
        for part in parts
    ]
    expected = torch.cat(expected, 1)
    torch.testing.assert_close(found, expected)
    leaves = [keys, values, queries, *(g for g in gates if g is not None)]
    for x, y in zip(*(torch.autograd.grad(r.square().sum(), leaves) for r in (found, expected)), strict=True):
        torch.testing.assert_close(x, y)


def test_half_precision_is_summed_in_float32():
    x = torch.ones(1, 1000, 1, dtype=torch.bfloat16)
    found = lookup_along(x, x, x)
    assert found.dtype == torch.bfloat16
    assert found[0, -1].item() == 1000


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"cu_seqlens": torch.tensor([0, 5, 3, 11])}, ShapeError, r"^cu_seqlens: .* up to 11, got \[0, 5, 3, 11\]$"),
        ({"cu_seqlens": torch.tensor([0, 5])}, ShapeError, "go from 0 up to 11"),
        ({"cu_seqlens": torch.tensor([1, 11])}, ShapeError, "go from 0 up to 11"),
        ({"cu_seqlens": torch.tensor([0.0, 11.0])}, DtypeError, "cu_seqlens: expected whole numbers"),
        ({"cu_seqlens": [0, None]}, DtypeError, r"cu_seqlens: expected whole numbers, got \[0, None\]"),
        ({"lengths": ["a", 1]}, DtypeError, "lengths: expected whole numbers, got"),
        ({"cu_seqlens": torch.tensor([0, 11]), "lengths": [11, 11]}, OptionError, "rows alone, got lengths"),
        ({"initial": torch.zeros(2, 3, 3)}, ShapeError, r"initial: expected \[2, 3, 2\]"),
        ({"alpha": torch.zeros(2, 10)}, ShapeError, r"alpha: expected \[2, 11\]"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(options, error, says):
    keys, values, queries = (x.float() for x in inputs()[:3])
    with pytest.raises(error, match=says):
        lookup_along(keys, values, queries, **options)
    with pytest.raises(ShapeError, match="one query per token"):
        lookup_along(keys, values, queries[:, :5])
