"""A bank of packed memories: what is written is what answers, whichever backend reads it."""

import pytest
import torch

from attar.errors import OptionError, ShapeError, UnknownDocumentError
from attar.ops import bank as banks
from attar.ops.bank import MemoryBank

pytestmark = pytest.mark.gpu

BACKENDS = ["torch", "triton"]
DTYPES = [
    pytest.param(dtype, id=str(dtype).removeprefix("torch."))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8)
]
BEYOND = 258  # more than the kernel holds
SIZES = [1, 2, 3, 16, 17, 100, 128, BEYOND]
# What a stored number is off by, at most, as a share of √(C_ii C_jj): half a unit in the last place.
ROUNDING = {torch.float32: 6e-8, torch.float16: 4.9e-4, torch.bfloat16: 4e-3, torch.int8: 1.01 * 1.01 / 254}


def memories_for(documents, size, device="cpu"):
    """Symmetric and positive semi-definite, as memories are, with rows of very different sizes."""
    states = torch.randn(documents, size + 3, size) * torch.logspace(-1, 1, size)
    return (states.mT @ states).to(device)


def bank_of(memories, dtype=torch.bfloat16, backend="auto"):
    documents, size, _ = memories.shape
    bank = MemoryBank(documents, size, dtype=dtype, device=memories.device, backend=backend)
    bank.write(torch.arange(documents), memories)
    return bank


def product(memories, queries):
    return torch.einsum("qij,qj->qi", memories.cpu().double(), queries.cpu().double())


def assert_close(found, expected, tolerance=2e-6):
    found = found.cpu().double()
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids="k={}".format)
def test_a_lookup_is_the_product_with_what_is_stored(size, dtype, backend, device):
    bank = bank_of(memories_for(4, size, device), dtype, backend)
    documents = torch.tensor([2, 0, 3, 2, 1], device=device)
    queries = torch.randn(5, size, device=device)
    found = bank.lookup(documents, queries)
    assert found.dtype == torch.float32
    assert_close(found, product(bank.read(documents), queries))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids="k={}".format)
def test_memories_are_read_back_as_they_were_written_and_symmetric(size, dtype, device):
    memories = memories_for(3, size, device)
    found = bank_of(memories, dtype).read(torch.tensor([2, 0], device=device))
    written = memories[[2, 0]]
    scales = written.diagonal(dim1=1, dim2=2).sqrt()
    assert found.dtype == torch.float32
    assert torch.equal(found, found.mT)
    assert ((found - written).abs() <= ROUNDING[dtype] * 1.01 * scales[:, :, None] * scales[:, None, :]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_zeros_stays_zero(dtype, backend, device):
    memories = memories_for(1, 5, device)
    memories[:, 2] = memories[:, :, 2] = 0
    bank = bank_of(memories, dtype, backend)
    queries = torch.randn(1, 5, device=device)
    found = bank.lookup(torch.tensor([0]), queries)
    assert found[0, 2] == 0
    assert_close(found, product(bank.read(torch.tensor([0])), queries))


@pytest.mark.parametrize("programs", [1, 3])
def test_programs_with_several_queries_each_give_the_product(programs, device, monkeypatch):
    from attar.ops.triton import bank as kernels

    monkeypatch.setitem(kernels.LAUNCHES, 2, kernels.LAUNCHES[2]._replace(programs=programs))
    bank = bank_of(memories_for(3, 6, device), backend="triton")
    documents, queries = torch.arange(8) % 3, torch.randn(8, 6, device=device)
    assert_close(bank.lookup(documents, queries), product(bank.read(documents), queries))


def test_lookups_unpacked_in_parts_equal_the_product(device, monkeypatch):
    monkeypatch.setattr(banks, "UNPACKED_AT_ONCE", 3)
    bank = bank_of(memories_for(3, 6, device), backend="torch")
    documents, queries = torch.arange(8) % 3, torch.randn(8, 6, device=device)
    assert_close(bank.lookup(documents, queries), product(bank.read(documents), queries))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_queries_may_have_any_dtype_and_strides(dtype, backend, device):
    bank = bank_of(memories_for(3, 6, device), backend=backend)
    queries = torch.randn(6, 3, device=device).to(dtype).T
    found = bank.lookup(torch.arange(3), queries)
    assert found.dtype == torch.float32
    assert_close(found, product(bank.read(torch.arange(3)), queries))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16], ids=str)
def test_document_indices_may_have_any_dtype_and_strides(dtype, backend, device):
    bank = bank_of(memories_for(3, 6, device), backend=backend)
    documents, queries = (
        torch.tensor([2, 0, 1, 0], dtype=dtype, device=device)[::2],
        torch.randn(2, 6, device=device),
    )
    assert_close(bank.lookup(documents, queries), product(bank.read(torch.tensor([2, 1])), queries))


def test_document_indices_may_be_a_list(device):
    bank = bank_of(memories_for(3, 6, device))
    assert torch.equal(bank.read([2, 0]), bank.read(torch.tensor([2, 0])))
    bank.write([2], memories_for(1, 6, device))
    with pytest.raises(OptionError, match="filled by indices"):
        bank.write(["emma"], memories_for(1, 6, device))


@pytest.mark.parametrize(
    ("dtype", "size", "nbytes"),
    [
        (torch.bfloat16, 128, 16_512),
        (torch.float32, 128, 33_024),
        (torch.int8, 128, 8_256 + 256),
        (torch.bfloat16, 3, 2 * 10),
        (torch.int8, 4, 10 + 2 * 4),
    ],
    ids=["bfloat16", "float32", "int8 and its scales", "an odd size, one row more", "a small int8"],
)
def test_a_document_uses_the_bytes_of_its_triangle(dtype, size, nbytes, device):
    assert MemoryBank(10, size, dtype=dtype, device=device).nbytes == 10 * nbytes


NUMBERS = torch.tensor([0, 1])
MISTAKES = {
    "a number past the end": (
        lambda bank, q: bank.lookup(torch.tensor([0, 4]), q),
        (ShapeError, r"documents: expected numbers from 0 to 3, got 4"),
    ),
    "a memory that is not symmetric": (
        lambda bank, q: bank.write(NUMBERS, torch.arange(50.0).view(2, 5, 5)),
        (ShapeError, r"memories: expected a symmetric matrix, got one that is not; declare keys by values"),
    ),
    "a name that is not there": (
        lambda bank, q: bank.lookup(["emma", "emma"], q),
        (UnknownDocumentError, r"there is no document 'emma'"),
    ),
    "a document twice": (
        lambda bank, q: bank.write(["a", "a"], torch.zeros(2, 5, 5)),
        (
            OptionError,
            r"^documents: expected different documents, got one of them twice; write one memory per",
        ),
    ),
    "more names than room": (
        lambda bank, q: bank.write(list("abcde"), torch.zeros(5, 5, 5)),
        (OptionError, r"MemoryBank: expected at most 4 documents, got 0 and 5 more; make a larger bank"),
    ),
}


def test_a_name_alone_is_one_document(device):
    bank = MemoryBank(4, 6, heads=2, dtype=torch.float32, device=device)
    with pytest.raises(
        ShapeError, match=r"^memories: expected \[1, 2, 3, 3\], got \[2, 2, 3, 3\]; one memory per"
    ):
        bank.write("xy", torch.zeros(2, 2, 3, 3, device=device))
    assert bank.names == []
    memory = torch.eye(3, device=device).expand(1, 2, 3, 3)
    bank.write("xy", memory)
    assert bank.names == ["xy"]
    assert torch.equal(bank.read("xy"), memory)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_are_one_line(mistake, device, unchecked_shapes):
    call, (kind, message) = MISTAKES[mistake]
    bank = MemoryBank(4, 5, device=device, backend="triton")
    with pytest.raises(kind, match=message):
        call(bank, torch.zeros(2, 5, device=device))
