"""Which implementation runs, and what is said when it cannot."""

import warnings

import pytest
import torch

from attar.errors import DeviceError, DtypeError, MissingError, OptionError
from attar.ops import checks
from attar.ops.checks import choose_backend
from attar.ops.gram import encode
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive


class OnAGPU:
    """As much of a CUDA tensor as choosing a backend looks at."""

    device = torch.device("cuda")

    def __init__(self, dtype=torch.float32):
        self.dtype = dtype


@pytest.fixture(autouse=True)
def unchecked(unchecked_shapes):
    checks._warn_once.cache_clear()


def test_auto_is_torch_on_a_cpu():
    assert choose_backend("auto", torch.zeros(1)) == "torch"


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_a_named_backend_is_used(name):
    assert choose_backend(name, torch.zeros(1)) == name


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
    cell = AffineGates(torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2))
    x = torch.zeros(1, 1, 1)
    with pytest.raises(OptionError, match="got AffineGates, 'invert' and k = 1; use backend='torch'"):
        encode_adaptive(x, x, cell, backward="invert", backend="triton")
    with pytest.raises(OptionError, match="got function"):
        encode_adaptive(x, x, lambda h, f, r: (h[:, 0], h[:, 0]), backend="triton")
