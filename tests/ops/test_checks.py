"""Mistakes are one line: what was expected, what came, what to do; and which backend runs."""

import warnings

import pytest
import torch

from attar.errors import AttarError, DeviceError, DtypeError, MissingError, OptionError, ShapeError
from attar.ops import checks
from attar.ops.checks import choose_backend
from attar.ops.gram import encode
from attar.ops.lookups import lookup, softmax_lookup
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive


@pytest.fixture(autouse=True)
def unchecked(unchecked_shapes):
    checks._warn_once.cache_clear()


F = torch.zeros(2, 5, 3)
Q = torch.zeros(2, 4, 3)
CELL = AffineGates(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2))

MISTAKES = {
    "two axes": (lambda: encode(F[0]), ShapeError, ["f", "[B, n, k]", "[5, 3]"]),
    "whole numbers": (lambda: encode(F.long()), DtypeError, ["f", "floating-point", "torch.int64"]),
    "no tensor": (lambda: encode([[1.0]]), DtypeError, ["f", "a tensor", "list"]),
    "a gate too long": (lambda: encode(F, alpha=torch.ones(2, 6)), ShapeError, ["alpha", "[2, 5]", "[2, 6]"]),
    "another document's memory": (
        lambda: encode(F, initial=torch.zeros(1, 3, 3)),
        ShapeError,
        ["initial", "[2, 3, 3]", "[1, 3, 3]"],
    ),
    "a gate elsewhere": (
        lambda: encode(F, alpha=torch.zeros(2, 5, device="meta")),
        DeviceError,
        ["alpha", "cpu", "meta"],
    ),
    "a length too many": (lambda: encode(F, lengths=[1, 2, 3]), ShapeError, ["lengths", "[2]", "[3]"]),
    "a length past the end": (lambda: encode(F, lengths=[5, 6]), ShapeError, ["lengths", "0 to 5", "6"]),
    "an unknown backend": (
        lambda: encode(F, backend="cuda"),
        OptionError,
        ["backend", "reference", "'cuda'"],
    ),
    "states of other documents": (
        lambda: encode_adaptive(torch.zeros(2, 4, 3), F, CELL),
        ShapeError,
        ["h", "[2, 5, 3]", "[2, 4, 3]"],
    ),
    "an unknown way back": (
        lambda: encode_adaptive(F, F, CELL, backward="reverse"),
        OptionError,
        ["backward", "'checkpoint' or 'invert'", "'reverse'"],
    ),
    "a lookup with queries of another size": (
        lambda: lookup(torch.zeros(2, 4, 4), Q),
        ShapeError,
        ["queries", "[2, 4, 4]", "[2, 4, 3]"],
    ),
    "softmax with lengths past the end": (
        lambda: softmax_lookup(F, Q, lengths=[6, 0]),
        ShapeError,
        ["lengths", "0 to 5", "6"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_is_one_line_with_what_was_expected_and_given(mistake):
    call, kind, words = MISTAKES[mistake]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, AttarError)
    assert "\n" not in message
    assert "expected " in message
    assert ", got " in message
    assert [word for word in words if word not in message] == []


class OnAGPU:
    """As much of a CUDA tensor as choosing a backend looks at."""

    device = torch.device("cuda")

    def __init__(self, dtype=torch.float32):
        self.dtype = dtype


def test_auto_is_triton_on_a_gpu_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", True)
    assert choose_backend("auto", OnAGPU()) == "triton"
    assert choose_backend("auto", OnAGPU(torch.float64)) == "torch"


def test_a_missing_triton_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", False)
    with pytest.warns(RuntimeWarning, match="pip install"):
        assert choose_backend("auto", OnAGPU()) == "torch"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_backend("auto", OnAGPU()) == "torch"


def test_backend_triton_without_triton_is_refused(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", False)
    with pytest.raises(MissingError, match=r"pip install '\.\[gpu\]'"):
        encode(torch.zeros(1, 1, 1), backend="triton")


def test_backend_triton_on_a_cpu_is_refused_without_the_interpreter(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(DeviceError, match="CUDA device, got cpu; use backend='torch'"):
        encode(torch.zeros(1, 1, 1), backend="triton")


def test_backend_triton_refuses_float64(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(DtypeError, match=r"float32, float16 or bfloat16, got torch\.float64"):
        encode(torch.zeros(1, 1, 1).double(), backend="triton")


def test_backend_triton_refuses_other_cells_and_inversion(monkeypatch):
    monkeypatch.setattr(checks, "TRITON_IS_INSTALLED", True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    x, cell = torch.zeros(1, 1, 1), AffineGates(torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2))
    with pytest.raises(OptionError, match="got AffineGates, 'invert' and k = 1; use backend='torch'"):
        encode_adaptive(x, x, cell, backward="invert", backend="triton")
    with pytest.raises(OptionError, match="got function"):
        encode_adaptive(x, x, lambda h, f, r: (h[:, 0], h[:, 0]), backend="triton")
