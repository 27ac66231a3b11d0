"""Memories as an algebra: parts of a batch, sums and differences, beams, files."""

import dataclasses

import numpy as np
import pytest
import torch

from attar.errors import (
    AttarError,
    DeviceError,
    DtypeError,
    FormatError,
    OptionError,
    ShapeError,
    UnknownDocumentError,
)
from attar.nn.mechanisms import attention
from attar.nn.memories import Memories

SIZE = 4
SUMS = ("linear", "gated", "decayed", "keyed", "keyed, ridge")
KINDS = ("none", "softmax", *SUMS, "adaptive")
HEADED = ("linear", "decayed", "keyed, ridge")


def made(kind, heads=1):
    name, _, rest = kind.partition(", ")
    module = attention(
        name, SIZE, heads, **({"ridge": True} if rest else {}), **({"span": 5.0} if name == "decayed" else {})
    )
    return module.double()


def read(module, hidden, lengths=None):
    return module.encode(hidden, lengths, **({"values": hidden.flip(2)} if module.name == "keyed" else {}))


def documents(batch=3, n=7):
    return torch.randn(batch, n, SIZE).double()


def queries(batch=3):
    return torch.randn(batch, 2, SIZE).double()


@pytest.mark.parametrize("kind", KINDS)
class TestBatches:
    def test_one_document_is_a_batch_of_one(self, kind):
        module, q = made(kind), queries()
        memories = read(module, documents(), [7, 3, 1])
        assert len(memories) == 3
        for i, memory in enumerate(memories):
            assert len(memory) == 1
            found = module.lookup(memory, q[i : i + 1])
            torch.testing.assert_close(found, module.lookup(memories, q)[i : i + 1])
        assert memories[-1].allclose(memories[2])
        assert memories[torch.tensor([2, 0])].allclose(Memories.cat([memories[2], memories[0]]))
        assert memories[1:].tokens.tolist() == [3, 1]
        assert memories[[True, False, True]].tokens.tolist() == [7, 1]

    def test_batches_are_joined(self, kind):
        module, q = made(kind), queries(5)
        first, second = read(module, documents(3, 7)), read(module, documents(2, 4))
        joined = Memories.cat([first, second])
        expected = torch.cat([module.lookup(first, q[:3]), module.lookup(second, q[3:])])
        found = module.lookup(joined, q)
        torch.testing.assert_close(found[..., : expected.shape[-1]], expected)

    def test_beams_are_repeated_documents(self, kind):
        module, q = made(kind), queries(6)
        memories = read(module, documents())
        beams = memories.repeat_interleave(2)
        assert beams.tokens.tolist() == [7] * 6
        torch.testing.assert_close(module.lookup(beams, q)[::2], module.lookup(memories, q[::2]))

    def test_are_saved_and_loaded_with_their_names(self, kind, tmp_path):
        memories = read(made(kind), documents()).prepare()
        memories.save(tmp_path / "some.safetensors", names=["a", "b", "ü"])
        loaded = Memories.load(tmp_path / "some.safetensors")
        assert loaded.names == ("a", "b", "ü")
        assert loaded.allclose(memories, rtol=0.0, atol=0.0)
        assert loaded["ü"].allclose(memories[2])
        assert (loaded.prepared is None) == (kind != "keyed, ridge")
        assert loaded[["b", "a"]].names == ("b", "a")
        assert list(tmp_path.iterdir()) == [tmp_path / "some.safetensors"]


def test_names_follow_what_is_chosen():
    memories = dataclasses.replace(read(made("linear"), documents()), names=("a", "b", "c"))
    mask = torch.tensor([True, False, True])
    for index in (mask, mask.tolist(), [0, 2], [0, "c"], torch.tensor([0, -1]), slice(0, 3, 2)):
        assert memories[index].names == ("a", "c")
        assert memories[index].allclose(Memories.cat([memories["a"], memories["c"]]))
    for number in (1, torch.tensor(1), np.int64(1), np.int32(-2)):
        assert memories[number].names == ("b",)
        assert memories[number].allclose(memories["b"])


@pytest.mark.parametrize(("kind", "heads"), [*((kind, 1) for kind in SUMS), *((kind, 2) for kind in HEADED)])
class TestSums:
    def test_two_texts_are_one(self, kind, heads):
        module, hidden = made(kind, heads), documents()
        both = read(module, hidden[:, :3]) + read(module, hidden[:, 3:])
        assert both.allclose(read(module, hidden))
        assert torch.equal(both.tokens, torch.tensor([7, 7, 7]))

    def test_what_is_subtracted_is_as_if_never_read(self, kind, heads):
        module, hidden = made(kind, heads), documents()
        earlier, later = read(module, hidden[:, :3]), read(module, hidden[:, 3:])
        rest = earlier + later - later
        assert rest.allclose(earlier)
        torch.testing.assert_close((earlier + later - later).state, earlier.state)
        assert (rest + later).allclose(earlier + later)

    def test_gradients_reach_both_texts(self, kind, heads):
        module = made(kind, heads)
        first, second = documents().requires_grad_(), documents().requires_grad_()
        whole = read(module, first) + read(module, second)
        (whole - read(module, second)).state.square().sum().backward()
        expected = torch.autograd.grad(read(module, first).state.square().sum(), first)[0]
        torch.testing.assert_close(first.grad, expected)
        torch.testing.assert_close(second.grad, torch.zeros_like(second), atol=1e-8, rtol=0)


def test_the_documents_of_a_batch_are_summed():
    module, hidden = made("keyed, ridge"), documents()
    whole = read(module, hidden.flatten(0, 1)[None])
    assert sum(read(module, hidden)).allclose(whole)


def test_decayed_memories_merge_in_order():
    module, hidden = made("decayed"), documents()
    first, second = read(module, hidden[:, :3]), read(module, hidden[:, 3:])
    assert not (second + first).allclose(first + second)
    assert (first + second).allclose(read(module, hidden))
    torch.testing.assert_close((first + second).kept, read(module, hidden).kept)


def test_an_earlier_text_of_which_rounding_is_left_is_not_recovered():
    module, hidden = made("decayed").float(), documents(1, 90).float()
    first = read(module, hidden[:, :30])
    near, far = (
        read(module, hidden[:, 30:60]),
        read(module, hidden[:, 30:]),
    )  # e⁻⁶ and e⁻¹² of the first are left
    assert (first + near - near).allclose(first, rtol=1e-2, atol=1e-3)
    with pytest.raises(ShapeError, match=r"^subtract: the later text has left too little of the earlier one"):
        first + far - far


class TestPreparing:
    def test_lookups_of_prepared_memories_are_the_same(self):
        module, q = made("keyed, ridge", 2), queries()
        memories = read(module, documents())
        prepared = memories.prepare()
        torch.testing.assert_close(module.lookup(prepared, q), module.lookup(memories, q))
        assert prepared.prepared.shape == (3, 2, 2, 2)
        assert prepared.prepare() is prepared

    def test_every_change_drops_what_was_prepared(self):
        module, hidden, q = made("keyed, ridge"), documents(), queries()
        prepared = read(module, hidden).prepare()
        other = read(module, documents()).prepare()
        for changed in (
            prepared + other,
            prepared - prepared,
            module.extend(prepared, hidden, values=hidden),
        ):
            assert changed.prepared is None
        assert prepared[1:].prepared is not None
        torch.testing.assert_close(module.lookup(prepared + other - other, q), module.lookup(prepared, q))

    def test_gradients_pass(self):
        module, hidden, q = made("keyed, ridge"), documents().requires_grad_(), queries()
        losses = [
            module.lookup(m, q).square().sum() for m in (read(module, hidden), read(module, hidden).prepare())
        ]
        torch.testing.assert_close(*(torch.autograd.grad(loss, hidden)[0] for loss in losses))

    @pytest.mark.parametrize("heads", [1, 2])
    def test_an_empty_document_reads_as_zero(self, heads):
        module, hidden, q = made("keyed, ridge", heads).float(), documents().float(), queries().float()
        earlier, later = read(module, hidden[:, :3]), read(module, hidden[:, 3:])
        left = earlier + later - later - read(module, hidden[:, :3], [0, 3, 3])
        assert left.tokens.tolist() == [3, 0, 0]
        assert left.state[1:].any()  # rounding
        for memories in (left, left.prepare()):
            readouts = module.lookup(memories, q)
            assert readouts[0].any()
            assert not readouts[1:].any()


def test_more_than_was_read_is_not_subtracted():
    module, hidden = made("linear"), documents()
    with pytest.raises(
        ShapeError, match=r"^subtract: the part has more tokens than the whole; subtract a part"
    ):
        read(module, hidden[:, :3]) - read(module, hidden)


@pytest.mark.usefixtures("unchecked_shapes")
class TestMistakes:
    def test_other_mechanisms_sizes_and_devices_are_refused(self):
        linear, gated = (read(made(kind), documents()) for kind in ("linear", "gated"))
        for combine in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: Memories.cat([a, b])):
            with pytest.raises(OptionError, match=r"expected memories of 'linear', got memories of 'gated'$"):
                combine(linear, gated)
            with pytest.raises(ShapeError, match=r"expected memories of one size, \[4, 4\], got \[3, 3\]$"):
                combine(linear, Memories(torch.zeros(3, 3, 3), torch.zeros(3).long(), "linear"))
            with pytest.raises(
                DeviceError, match=r"^memories: expected a tensor on meta, got cpu; call memories\.to"
            ):
                combine(linear, linear.to("meta"))
            with pytest.raises(DtypeError, match=r"expected Memories, got Tensor$"):
                combine(linear, linear.state)
        with pytest.raises(ShapeError, match=r"memories\.tokens: expected \[2\], got \[3\]"):
            linear + linear[:2]

    def test_numbers_and_names_that_are_not_there(self):
        memories = read(made("linear"), documents())
        with pytest.raises(IndexError, match=r"^memories: expected a number below 3, got 3$"):
            memories[3]
        with pytest.raises(UnknownDocumentError, match="there is no document 'emma'"):
            memories["emma"]
        with pytest.raises(ShapeError, match=r"^cat: expected at least one batch"):
            Memories.cat([])

    def test_files_of_others_are_refused(self, tmp_path):
        import safetensors.torch

        memories = read(made("linear"), documents())
        with pytest.raises(ShapeError, match=r"^names: expected 3 different names, got 1 of 3$"):
            memories.save(tmp_path / "a", names=["x", "x", "x"])
        safetensors.torch.save_file({"weight": torch.zeros(1)}, tmp_path / "weights")
        (tmp_path / "text").write_text("no tensors")
        with pytest.raises(AttarError, match=r"^cannot write .*; name a file in a folder that exists$"):
            memories.save(tmp_path / "none" / "a")
        for name in ("weights", "text", "none"):
            with pytest.raises(FormatError, match=r"is not a file of 'attar memories 1' \("):
                Memories.load(tmp_path / name)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_fraction_is_no_document():
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        read(made("linear"), documents())[[0.5]]
