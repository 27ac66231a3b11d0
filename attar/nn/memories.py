"""What documents become, as an algebra: memories that are indexed, joined, added, subtracted, prepared, saved."""

import dataclasses
import itertools
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils import _pytree

from attar.errors import DtypeError, OptionError, ShapeError, UnknownDocumentError, quoted
from attar.ops.checks import check_device, check_shape, is_traced, shape_of
from attar.ops.lookups import ridge_solution
from attar.ops.tensor_files import open_tensors, save_tensors

TENSORS = ("state", "tokens", "kept", "prepared")
FORMAT = "attar memories 1"
Index = SupportsIndex | slice | str | Sequence[int] | Sequence[str] | Int[Tensor, " I"] | Bool[Tensor, " B"]


@dataclass(frozen=True, eq=False, repr=False)
class Memories:
    """The memories of B documents, and the number of tokens that each has read.

    `state` is `[B, k, k]` for linear, gated, decayed and adaptive; `[B, k, d]` for keyed, `[B, k, d + k]` with a ridge;
    `[B, n, k]`, all states, for softmax; `[B, k]`, the last state, for none. With heads, a matrix is
    `[B, heads, k / heads, …]`. `tokens` are kept separate and not divided out of it, so that states stay additive.

    `earlier + later` is the memory of both texts, `whole - part` the memory without a text that it contains: exact and
    differentiable. For `decayed`, order matters: `kept` is ∏ α of each text, the sum is `kept C₁ + C₂`, and what is
    subtracted is the later text. `prepared` is (G + λI)⁻¹ C of a ridge; every change drops it.

    It is a pytree, goes through `torch.export` and `torch.func.vmap`, and loads under `torch.load`'s defaults.

    >>> import torch
    >>> a, b = (Memories(torch.full((1, 1, 1), x), torch.tensor([3]), "linear") for x in (1.0, 2.0))
    >>> (a + b).state.item(), (a + b - b).allclose(a), len(Memories.cat([a, b]))
    (3.0, True, 2)
    """

    state: Float[Tensor, "B ..."]
    tokens: Int[Tensor, " B"]
    mechanism: str
    kept: Float[Tensor, "B ..."] | None = None
    prepared: Float[Tensor, "B ..."] | None = None
    ridge: float = 0.0
    names: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"Memories(mechanism={self.mechanism!r}, documents={len(self)}, state={[*self.state.shape]})"

    def __len__(self) -> int:
        return int(self.tokens.shape[0])

    def __iter__(self) -> Iterator["Memories"]:
        """Memories of one document each."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Index) -> "Memories":
        """Some of the documents, by number, slice, tensor, mask or name; one of them is still a batch, of one."""
        if isinstance(index, str):
            index = [index]
        if isinstance(index, Sequence):
            index = [self._place(each) for each in index]
        elif isinstance(index, Tensor) and index.ndim > 1:
            raise ShapeError.expected("memories", "numbers [I]", shape_of(index), "call flatten() first")
        elif not isinstance(index, slice | Tensor) or (isinstance(index, Tensor) and index.ndim == 0):
            number = operator.index(index)
            if not -len(self) <= number < len(self):
                raise IndexError(f"memories: expected a number below {len(self)}, got {number}")
            index = slice(number, number + 1 or None)
        taken = self._map(lambda tensor: tensor[index])
        if self.names is None:
            return taken
        chosen = torch.arange(len(self), device=self.tokens.device)[index].tolist()
        return dataclasses.replace(taken, names=tuple(self.names[i] for i in chosen))

    def __add__(self, later: "Memories") -> "Memories":
        """Two texts, document by document, as if they had been read as one."""
        _check_alike("merge", self, later)
        if self.mechanism not in _MERGE:
            expected = "a mechanism whose gates do not read the memory"
            remedy = "extend the first memory with the second text's states"
            raise OptionError.expected("merge", expected, repr(self.mechanism), remedy)
        return _MERGE[self.mechanism](self, later)

    def __radd__(self, nothing: int) -> "Memories":
        """`sum(memories)`, which starts from 0: all documents of a batch as one."""
        return self if nothing == 0 else NotImplemented

    def __sub__(self, part: "Memories") -> "Memories":
        """The memories without a text that they contain, as if it had never been read."""
        _check_alike("subtract", self, part)
        if self.mechanism not in _SUBTRACT:
            remedy = "encode the rest again"
            raise OptionError.expected("subtract", "a memory that is a sum", repr(self.mechanism), remedy)
        tokens = self.tokens - part.tokens
        if not is_traced() and not tokens.is_meta and bool((tokens < 0).any()):
            remedy = "subtract a part of the text from the whole"
            raise ShapeError("subtract: the part has more tokens than the whole", remedy)
        return dataclasses.replace(_SUBTRACT[self.mechanism](self, part), tokens=tokens)

    @staticmethod
    def cat(memories: Sequence["Memories"]) -> "Memories":
        """Several batches of documents as one."""
        if not memories:
            raise ShapeError("cat: expected at least one batch of memories, got none")
        first = memories[0]
        for other in memories[1:]:
            _check_alike("cat", first, other, same_batch=False)
        if first.mechanism == "softmax":  # a row per token
            rows = max(each.state.shape[1] for each in memories)
            pad = torch.nn.functional.pad
            memories = [
                dataclasses.replace(each, state=pad(each.state, (0, 0, 0, rows - each.state.shape[1])))
                for each in memories
            ]

        def joined(name: str) -> Any:
            tensors = [getattr(each, name) for each in memories]
            return None if any(tensor is None for tensor in tensors) else torch.cat(tensors)

        names = [each.names for each in memories if each.names is not None]
        every = tuple(itertools.chain(*names)) if len(names) == len(memories) else None
        return dataclasses.replace(first, **{name: joined(name) for name in TENSORS}, names=every)

    def repeat_interleave(self, repeats: int) -> "Memories":
        """Each document several times in a row, one per beam."""
        names = None if self.names is None else tuple(n for name in self.names for n in [name] * repeats)
        repeated = self._map(lambda tensor: tensor.repeat_interleave(repeats, 0))
        return dataclasses.replace(repeated, names=names)

    def prepare(self) -> "Memories":
        """The same, with what lookups of a ridge need computed once: (G + λI)⁻¹ C. Others need nothing.

        It is 0 for a document of no tokens.
        """
        if not self.ridge or self.prepared is not None:
            return self
        # Where everything was subtracted, rounding is left; λ is relative to G and would amplify it.
        empty = (self.tokens == 0).view(-1, *[1] * (self.state.ndim - 1))
        state = self.state.masked_fill(empty, 0)
        solved = ridge_solution(state.reshape(-1, *state.shape[-2:]), ridge=self.ridge)
        # Row by row, as other memories are: the solver's columns take lookups a fifth longer.
        rows = solved.contiguous().view(*self.state.shape[:-1], solved.shape[2])
        return dataclasses.replace(self, prepared=rows)

    def to(
        self, device: torch.device | torch.dtype | str | None = None, dtype: torch.dtype | None = None
    ) -> "Memories":
        """The same on another device, or with its matrices in another dtype.

        >>> Memories(torch.zeros(1, 2, 2), torch.tensor([3]), "linear").to(torch.bfloat16).state.dtype
        torch.bfloat16
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        return self._map(lambda tensor: tensor.to(device, dtype if tensor.is_floating_point() else None))

    def cpu(self) -> "Memories":
        """The same in the memory of the CPU."""
        return self.to("cpu")

    def detach(self) -> "Memories":
        """The same, detached from the graph: reading continues, gradients stop here."""
        return self._map(Tensor.detach)

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def allclose(self, other: "Memories", rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Whether both are of one mechanism, have read as many tokens, and agree within the tolerance."""
        if not isinstance(other, Memories) or self._form() != other._form():
            return False
        same = self.state.shape == other.state.shape and torch.equal(self.tokens, other.tokens)
        return same and torch.allclose(self.state, other.state.to(self.state.dtype), rtol, atol)

    def save(self, path: str | Path, names: Sequence[str] | None = None) -> None:
        """Write them as a safetensors file, with a name per document if there are any."""
        names = self.names if names is None else tuple(names)
        if names is not None and (len(names) != len(self) or len(set(names)) != len(names)):
            raise ShapeError.expected(
                "names", f"{len(self)} different names", f"{len(set(names))} of {len(names)}"
            )
        about = {"format": FORMAT, "mechanism": self.mechanism, "ridge": repr(self.ridge)}
        about |= {} if names is None else {"names": json.dumps(names)}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self._tensors().items()}
        save_tensors(path, tensors, about)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> "Memories":
        """Read a file that `save` wrote."""
        with open_tensors(path, FORMAT, device) as (file, about):
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            names = tuple(json.loads(about["names"])) if "names" in about else None
            return cls(**tensors, mechanism=about["mechanism"], ridge=float(about["ridge"]), names=names)

    def _tensors(self) -> dict[str, Any]:
        present = {name: getattr(self, name) for name in TENSORS}
        return {name: tensor for name, tensor in present.items() if tensor is not None}

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Memories":
        changed: dict[str, Any] = {name: change(x) for name, x in self._tensors().items()}
        return dataclasses.replace(self, **changed)

    def _form(self) -> tuple[str, float]:
        return self.mechanism, self.ridge

    def _place(self, each: object) -> int:
        """The number of a document by name, or a number or truth value as it is; torch would round a fraction."""
        if not isinstance(each, str):
            return each if isinstance(each, bool) else operator.index(each)  # type: ignore[arg-type]
        if each not in (self.names or ()):
            raise UnknownDocumentError.named(each)
        return (self.names or ()).index(each)


def form_name(mechanism: str, ridge: float) -> str:
    """A mechanism and its ridge, as messages show them.

    >>> form_name("keyed", 0.1)
    "'keyed' with ridge 0.1"
    """
    return quoted(mechanism) + (f" with ridge {ridge!r}" if ridge else "")


def _check_alike(what: str, left: Memories, right: object, *, same_batch: bool = True) -> None:
    """Refuse memories of another mechanism, size or device."""
    if not isinstance(right, Memories):
        raise DtypeError.expected(what, "Memories", type(right).__name__)
    if left._form() != right._form():
        forms = (f"memories of {form_name(*each._form())}" for each in (left, right))
        raise OptionError.expected(what, *forms)
    check_device("memories", left.tokens, right.tokens)
    if same_batch:
        check_shape("memories.tokens", left.tokens, tuple(right.tokens.shape), "one memory per document")
    # Softmax has a row per token; all else has one shape.
    shapes = [tuple(x.state.shape[2 if x.mechanism == "softmax" else 1 :]) for x in (left, right)]
    if shapes[0] != shapes[1]:
        raise ShapeError.expected(what, f"memories of one size, {list(shapes[0])}", str(list(shapes[1])))


def _changed(memories: Memories, other: Memories, state: Tensor, kept: Tensor | None = None) -> Memories:
    return dataclasses.replace(
        memories, state=state, tokens=memories.tokens + other.tokens, kept=kept, prepared=None
    )


def _decays(memories: Memories) -> Tensor:
    """∏ α of each text."""
    if memories.kept is None:
        remedy = "make them with DecayedAttention.encode"
        raise OptionError("merge: decayed memories need their kept, ∏ α", remedy)
    return memories.kept


def _add_decayed(earlier: Memories, later: Memories) -> Memories:
    decays = _decays(later)
    state = decays[..., None, None] * earlier.state + later.state
    return _changed(earlier, later, state, _decays(earlier) * decays)


def _subtract_decayed(whole: Memories, later: Memories) -> Memories:
    decays = _decays(later)
    # Rounding of the whole is divided by it: three digits of the earlier text are to be correct.
    least = 1e3 * torch.finfo(whole.state.dtype).eps
    if not is_traced() and not decays.is_meta and bool((decays < least).any()):
        raise ShapeError(
            "subtract: the later text has left too little of the earlier one", "encode that again"
        )
    state = (whole.state - later.state) / decays[..., None, None]
    return _changed(whole, later, state, _decays(whole) / decays)


def _last(earlier: Memories, later: Memories) -> Memories:
    return _changed(earlier, later, torch.where(later.tokens[:, None] > 0, later.state, earlier.state))


def _concatenate(earlier: Memories, later: Memories) -> Memories:
    """Each document's later states after its own last earlier one; padding stays at the end."""
    width = earlier.state.shape[1]
    states = torch.cat([earlier.state, later.state], 1)
    position = torch.arange(states.shape[1], device=states.device)
    new = position - earlier.tokens[:, None]
    source = torch.where(new < 0, position, width + new).clamp(max=states.shape[1] - 1)
    return _changed(earlier, later, states.gather(1, source[:, :, None].expand(-1, -1, states.shape[2])))


Combine = Callable[[Memories, Memories], Memories]
_SUMS = ("linear", "gated", "keyed")
_MERGE: dict[str, Combine] = {"none": _last, "softmax": _concatenate, "decayed": _add_decayed}
_MERGE |= dict.fromkeys(_SUMS, lambda earlier, later: _changed(earlier, later, earlier.state + later.state))
_SUBTRACT: dict[str, Combine] = {"decayed": _subtract_decayed}
_SUBTRACT |= dict.fromkeys(_SUMS, lambda whole, part: _changed(whole, part, whole.state - part.state))


def _flatten(memories: Memories) -> tuple[list[Any], tuple[Any, ...]]:
    present = memories._tensors()
    return list(present.values()), (tuple(present), memories.mechanism, memories.ridge, memories.names)


def _unflatten(leaves: Any, context: Any) -> Memories:
    # Leaves may be anything: placeholders, or tensors with further dimensions under vmap.
    present, mechanism, ridge, names = context
    memories = object.__new__(Memories)
    empty = dict.fromkeys(TENSORS)
    memories.__dict__.update(empty | dict(zip(present, leaves, strict=True)))
    memories.__dict__.update(mechanism=mechanism, ridge=ridge, names=None if names is None else tuple(names))
    return memories


def _with_keys(memories: Memories) -> tuple[list[Any], tuple[Any, ...]]:
    leaves, context = _flatten(memories)
    return [(_pytree.GetAttrKey(name), leaf) for name, leaf in zip(context[0], leaves, strict=True)], context


# Pickles name the class by its public place, wherever its module is.
Memories.__module__ = "attar.nn"
torch.serialization.add_safe_globals([Memories])
_pytree.register_pytree_node(
    Memories,
    _flatten,
    _unflatten,
    serialized_type_name="attar.nn.Memories",
    to_dumpable_context=json.dumps,
    from_dumpable_context=lambda text: tuple(
        tuple(x) if isinstance(x, list) else x for x in json.loads(text)
    ),
    flatten_with_keys_fn=_with_keys,
)
