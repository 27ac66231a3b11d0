"""Banks of keys by values, of several heads, by name, and in files."""

from pathlib import Path

import pytest
import torch

from attar.errors import FormatError, OptionError
from attar.nn import attention
from attar.ops.bank import MemoryBank

pytestmark = pytest.mark.gpu

BACKENDS = ["torch", "triton"]
DTYPES = [
    pytest.param(dtype, id=str(dtype).removeprefix("torch."))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8)
]
SIZES = [(1, 1), (3, 2), (16, 17), (17, 16), (64, 64), (20, 130)]
# What a stored number is off by, at most, as a share of its row's largest.
ROUNDING = {torch.float32: 6e-8, torch.float16: 4.9e-4, torch.bfloat16: 4e-3, torch.int8: 1.02 / 254}


def pairs(documents, k, d, device="cpu"):
    """Memories of keys and values, with rows of very different sizes."""
    return (torch.randn(documents, k, d) * torch.logspace(-1, 1, k)[:, None]).to(device)


def filled(memories, dtype=torch.bfloat16, backend="auto", heads=1):
    *_, k, d = memories.shape
    options = {"dtype": dtype, "device": memories.device, "backend": backend, "heads": heads}
    bank = MemoryBank(len(memories), heads * k, values=heads * d, **options)
    bank.write(torch.arange(len(memories)), memories)
    return bank


def assert_close(found, expected, tolerance=2e-6):
    assert found.shape == expected.shape
    assert (found.cpu().double() - expected.cpu()).norm() <= tolerance * expected.norm() + 1e-12


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k", "d"), SIZES)
def test_a_lookup_is_the_product_with_what_is_stored(k, d, dtype, backend, device):
    memories = pairs(4, k, d, device)
    bank = filled(memories, dtype, backend)
    documents, queries = torch.tensor([2, 0, 3, 2, 1]), torch.randn(5, k, device=device)
    stored = bank.read(documents)
    found = bank.lookup(documents, queries)
    assert found.dtype == torch.float32
    assert_close(found, torch.einsum("qkd,qk->qd", stored.double(), queries.double()))
    written = memories[documents.to(device)]
    allowed = ROUNDING[dtype] * 1.01 * written.abs().amax(2, keepdim=True) + 1e-12
    assert ((stored - written).abs() <= allowed).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("values", [None, 6], ids=["symmetric", "pairs"])
def test_every_head_reads_its_own_matrix(values, backend, device):
    heads, k = 2, 4
    d = k if values is None else values // heads
    memories = torch.randn(3, heads, k, d, device=device)
    memories = memories + memories.mT if values is None else memories
    options = {"values": values, "heads": heads, "device": device, "backend": backend, "dtype": torch.float32}
    bank = MemoryBank(3, heads * k, **options)
    bank.write(torch.arange(3), memories)
    queries = torch.randn(2, heads * k, device=device)
    found = bank.lookup(torch.tensor([2, 0]), queries)
    expected = torch.einsum("qhkd,qhk->qhd", memories[[2, 0]].double(), queries.view(2, heads, k).double())
    assert_close(found, expected.flatten(1))
    torch.testing.assert_close(bank.read(torch.tensor([2, 0])), memories[[2, 0]])


def test_documents_are_found_by_name(device):
    memories = pairs(3, 4, 2, device)
    bank = MemoryBank(5, 4, values=2, dtype=torch.float32, device=device)
    bank.write(["emma", "iliad"], memories[:2])
    bank.write(["alice", "emma"], memories[[2, 0]] * 2)
    assert bank.names == ["emma", "iliad", "alice"]
    assert torch.equal(bank.read(["iliad", "emma"]), torch.stack([memories[1], 2 * memories[0]]))
    queries = torch.randn(2, 4, device=device)
    assert torch.equal(bank.lookup(["alice", "alice"], queries), bank.lookup(torch.tensor([2, 2]), queries))
    assert torch.equal(bank.lookup("alice", queries[:1]), bank.lookup(["alice"], queries[:1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [None, 6], ids=["symmetric", "pairs"])
def test_a_bank_is_loaded_as_it_was_saved(values, dtype, device, tmp_path):
    memories = torch.randn(2, 4, 4, device=device) if values is None else torch.randn(2, 4, 6, device=device)
    memories = memories + memories.mT if values is None else memories
    bank = MemoryBank(3, 4, values=values, dtype=dtype, device=device)
    bank.write(["ü", "b"], memories)
    bank.save(tmp_path / "bank.safetensors")
    loaded = MemoryBank.load(tmp_path / "bank.safetensors", device=device)
    assert (loaded.names, loaded.documents, loaded.nbytes) == (["ü", "b"], 3, bank.nbytes)
    assert torch.equal(loaded.read(["b", "ü"]), bank.read(["b", "ü"]))
    loaded.write(["c"], memories[:1])
    assert torch.equal(loaded.read(["c"]), bank.read(["ü"]))
    assert MemoryBank.load(tmp_path / "bank.safetensors").names == ["ü", "b"]  # the file is as it was


def test_a_loaded_bank_is_a_memory_map(tmp_path):
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    bank = MemoryBank(4000, 128, values=128, dtype=torch.bfloat16, device="cpu")
    bank.values.fill_(1)
    bank.save(tmp_path / "bank")
    size = bank.nbytes
    del bank
    before = resident()
    loaded = MemoryBank.load(tmp_path / "bank")
    assert loaded.lookup(torch.tensor([7]), torch.ones(1, 128)).tolist() == [[128.0] * 128]
    assert resident() - before < size / 2


@pytest.mark.parametrize("ridge", [False, True], ids=["keyed", "ridge"])
def test_a_bank_gives_the_readouts_of_its_mechanism(ridge):
    module = attention("keyed", 8, 2, ridge=ridge, **({} if ridge else {"scale": "sqrt"}))
    memories = module.encode(torch.randn(3, 20, 8), [20, 5, 9], values=torch.randn(3, 20, 6)).prepare()
    bank = MemoryBank(3, 8, values=6, heads=2, dtype=torch.float32, device="cpu")
    bank.write(["a", "b", "c"], module.matrices(memories))
    queries = torch.randn(3, 8)
    expected = module.lookup(memories, queries[:, None])[:, 0]
    torch.testing.assert_close(bank.lookup(["a", "b", "c"], queries), expected)


def test_mistakes_are_one_line(device, tmp_path, unchecked_shapes):
    for what in ("documents", "size", "values", "heads"):
        with pytest.raises(OptionError, match=f"^{what}: expected a whole number from [01] up, got 4.5$"):
            MemoryBank(**({"documents": 3, "size": 4} | {what: 4.5}))
    for sizes in ({"heads": 3}, {"values": 5, "heads": 2}):
        with pytest.raises(OptionError, match=r"^heads: expected a number that divides 4"):
            MemoryBank(3, 4, device=device, **sizes)
    (tmp_path / "text").write_text("no bank")
    with pytest.raises(FormatError, match=r"is not a file of 'attar bank 1' \(.*\)$"):
        MemoryBank.load(tmp_path / "text")
