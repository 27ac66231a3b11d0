"""A bank of memories on one device, queried by (document, query) pairs: millions of documents on one GPU.

The cost of a lookup is the bytes it reads. So a memory is stored in bfloat16 or int8 and read once, in full rows. Its
form is declared, not guessed from its shape:

* symmetric, k × k (linear, gated, decayed, adaptive): k(k+1)/2 values, folded as below;
* keys by values, k × d (keyed, and a prepared ridge): k d values, row by row. In int8, each row has a scale.

With k = 2m, the two triangles on the diagonal of a symmetric memory fold into one square, and the block between is a
square:

    m × m   C_rc for c ≤ r, the first triangle;  C_(m+c)(m+r) for c > r, the second without its diagonal
    m × m   C_(m+r)c, the block between
    m       the second triangle's diagonal

An odd k is padded with one row of zeros.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import DtypeError, OptionError, ShapeError, UnknownDocumentError
from attar.ops import checks
from attar.ops.packed import LEVELS, dequantize, pack, quantize, unpack
from attar.ops.tensor_files import open_tensors, save_tensors

# Documents that are unpacked at a time without the kernel.
UNPACKED_AT_ONCE = 1024
# For larger k, the kernel's two tiles do not fit into the registers of a program.
LARGEST_IN_KERNEL = 256
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.int8)
FORMAT = "attar bank 1"

Documents = Int[Tensor, " D"] | Sequence[int] | Sequence[str]


class MemoryBank:
    """Memories by name or by index; `values` declares memories of keys and values, `[size, values]`.

    Sizes are those of all `heads` together, as in `attar.nn`. A mechanism's `matrices(memories)` is what is written.
    A bank is filled by names, whose indices follow each other, or by indices.

    >>> bank = MemoryBank(documents=10, size=2, device="cpu")
    >>> bank.write(["emma"], torch.tensor([[[1.0, 2.0], [2.0, 5.0]]]))
    >>> bank.lookup(["emma", "emma"], torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    >>> pairs = MemoryBank(documents=10, size=2, values=1, device="cpu")  # the first key's value is 3, the second's 4
    >>> pairs.write(torch.tensor([7]), torch.tensor([[[3.0], [4.0]]]))
    >>> pairs.lookup(torch.tensor([7]), torch.tensor([[0.0, 1.0]])).tolist()
    [[4.0]]
    """

    def __init__(
        self,
        documents: int,
        size: int,
        *,
        values: int | None = None,
        heads: int = 1,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cpu",
        backend: str = "auto",
    ) -> None:
        if dtype not in DTYPES:
            raise DtypeError.expected("dtype", "bfloat16, float16, float32 or int8", str(dtype))
        checks.check_size("documents", documents, 0)
        for what, number in (("size", size), ("values", values), ("heads", heads)):
            if number is not None:
                checks.check_size(what, number)
        if size % heads or (values or heads) % heads:
            sizes = f"{size}" if values is None else f"{size} and {values}"
            raise OptionError.expected("heads", f"a number that divides {sizes}", str(heads))
        self.documents, self.size, self.values_size, self.heads = documents, size, values, heads
        self.backend = backend
        self.rows = size // heads
        self.columns = None if values is None else values // heads
        self.padded = self.rows + self.rows % 2 if values is None else self.rows
        numbers = self.padded * (self.padded + 1) // 2 if self.columns is None else self.rows * self.columns
        self.values = torch.zeros(documents * heads, numbers, dtype=dtype, device=device)
        self.scales = None
        if dtype == torch.int8:
            self.scales = torch.zeros(documents * heads, self.padded, dtype=torch.bfloat16, device=device)
        self._places: dict[str, int] = {}
        self._numbered = False

    def __repr__(self) -> str:
        form = f"size={self.size}" + ("" if self.values_size is None else f", values={self.values_size}")
        return f"MemoryBank(documents={self.documents}, {form}, heads={self.heads}, {self.values.dtype})"

    def __contains__(self, name: object) -> bool:
        """Whether a document of that name was written."""
        return name in self._places

    @property
    def names(self) -> list[str]:
        """The names of documents in the order of their indices."""
        return list(self._places)

    @property
    def nbytes(self) -> int:
        """The bytes of device memory that the bank uses."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def write(self, documents: Documents, memories: Float[Tensor, "D ..."]) -> None:
        """Store memories under their documents' names or indices, replacing earlier ones."""
        documents = [documents] if isinstance(documents, str) else documents
        numbered = not _are_names(documents)
        chosen = self._indices(documents).tolist() if numbered else documents
        if len(set(chosen)) != len(chosen):
            remedy = "write one memory per document"
            raise OptionError.expected("documents", "different documents", "one of them twice", remedy)
        given: object = memories
        if not isinstance(given, Tensor):
            remedy = "a mechanism's matrices(memories) makes one"
            raise DtypeError.expected("memories", "a tensor of matrices", type(given).__name__, remedy)
        heads = () if self.heads == 1 else (self.heads,)
        shape = (*heads, self.rows, self.columns or self.rows)
        checks.check_floats("memories", memories, " ".join(["D", *(["heads"] if heads else []), "k", "d"]))
        checks.check_shape("memories", memories, (len(documents), *shape), "one memory per document")
        if self.columns is None:
            checks.check_symmetric("memories", memories, "declare keys by values: MemoryBank(..., values=d)")
        rows = self._rows(self._indices(documents, adding=True))
        self._numbered |= numbered
        matrices = memories.flatten(0, 1) if heads else memories
        matrices = matrices.detach().to(self.values.device, torch.float32)
        numbers, scales = self._stored(matrices)
        self.values[rows] = numbers
        if self.scales is not None and scales is not None:
            self.scales[rows] = scales

    def read(self, documents: Documents) -> Float[Tensor, "D ..."]:
        """The memories as they are stored, in float32."""
        indices = self._indices(documents)
        found = self._matrices(self._rows(indices))[:, : self.rows]
        found = found if self.columns is not None else found[:, :, : self.rows]
        return found if self.heads == 1 else found.view(len(indices), self.heads, *found.shape[1:])

    def lookup(self, documents: Documents, queries: Float[Tensor, "Q k"]) -> Float[Tensor, "Q d"]:
        """Cᵀ q for each pair of a document and a query; float32."""
        checks.check_floats("queries", queries, "Q k")
        indices = self._indices(documents)
        checks.check_shape("queries", queries, (len(indices), self.size), "one query per document")
        checks.check_device("queries", queries, self.values)
        rows, parts = self._rows(indices), queries.reshape(len(indices) * self.heads, self.rows)
        if self.padded != self.rows:
            parts = torch.nn.functional.pad(parts, (0, 1))
        if checks.choose_backend(self.backend, parts) == "triton" and self.padded <= LARGEST_IN_KERNEL:
            from attar.ops.triton import bank as kernels

            if self.columns is None:
                found = kernels.lookup(self.values, self.scales, rows, parts)[:, : self.rows]
            else:
                found = kernels.lookup_pairs(self.values, self.scales, rows, parts)
            return found.reshape(len(indices), self.values_size or self.size)
        parts = parts.float()
        some = zip(torch.split(rows, UNPACKED_AT_ONCE), torch.split(parts, UNPACKED_AT_ONCE), strict=True)
        readouts = torch.cat([torch.bmm(q[:, None], self._matrices(places))[:, 0] for places, q in some])
        return readouts[:, : self.columns or self.rows].reshape(len(indices), self.values_size or self.size)

    def save(self, path: str | Path) -> None:
        """Write the bank with its names as one safetensors file."""
        shape = {
            "documents": self.documents,
            "size": self.size,
            "values": self.values_size,
            "heads": self.heads,
        }
        about = {"format": FORMAT, "shape": json.dumps(shape), "numbered": json.dumps(self._numbered)}
        # A million names would not fit into the header's limit.
        names = torch.frombuffer(bytearray(json.dumps(self.names).encode()), dtype=torch.uint8)
        tensors = {"values": self.values.cpu(), "names": names}
        tensors |= {} if self.scales is None else {"scales": self.scales.cpu()}
        save_tensors(path, tensors, about)

    @classmethod
    def load(
        cls, path: str | Path, *, device: torch.device | str = "cpu", backend: str = "auto"
    ) -> "MemoryBank":
        """Open a bank that `save` wrote; on a CPU it is a memory map, of which lookups read what they need.

        What is written to a loaded bank stays in this process until it is saved again.
        """
        with open_tensors(path, FORMAT, device) as (file, about):
            shape = json.loads(about["shape"])
            bank = cls(**(shape | {"documents": 0}), device=device, backend=backend)
            bank.documents, bank.values = shape["documents"], file.get_tensor("values")
            bank.scales = file.get_tensor("scales") if bank.values.dtype == torch.int8 else None
            bank._numbered = json.loads(about["numbered"])
            names = json.loads(bytes(file.get_tensor("names").cpu().numpy()))
        bank._places = {name: place for place, name in enumerate(names)}
        return bank

    def _stored(self, matrices: Float[Tensor, "D k d"]) -> tuple[Tensor, Tensor | None]:
        """The numbers of matrices as they are stored, and the scales of int8."""
        if self.columns is None:
            if self.padded != self.rows:
                matrices = torch.nn.functional.pad(matrices, (0, 1, 0, 1))
            packed, folded = pack(matrices), _fold_order(self.padded, matrices.device)
            if self.scales is None:
                return packed[:, folded].to(self.values.dtype), None
            values, scales = quantize(packed, scale_dtype=self.scales.dtype)
            return values[:, folded], scales
        if self.scales is None:
            return matrices.flatten(1).to(self.values.dtype), None
        largest = matrices.abs().amax(2)
        scales = (largest * (1 + torch.finfo(torch.bfloat16).eps / 2)).to(self.scales.dtype)
        levels = matrices * torch.where(scales > 0, LEVELS / scales.float(), 0)[:, :, None]
        return levels.round().clamp(-LEVELS, LEVELS).to(torch.int8).flatten(1), scales

    def _matrices(self, rows: Int[Tensor, " R"]) -> Float[Tensor, "R k d"]:
        """Stored memories in float32, with the padding of an odd size."""
        if self.columns is not None:
            matrices = self.values[rows].float().view(len(rows), self.rows, self.columns)
            return (
                matrices
                if self.scales is None
                else matrices * (self.scales[rows].float() / LEVELS)[:, :, None]
            )
        packed = torch.empty(len(rows), self.values.shape[1], device=rows.device, dtype=self.values.dtype)
        packed[:, _fold_order(self.padded, rows.device)] = self.values[rows]
        return unpack(
            packed.float() if self.scales is None else dequantize(packed, self.scales[rows].float())
        )

    def _rows(self, indices: Int[Tensor, " D"]) -> Int[Tensor, " R"]:
        """The rows of all heads of documents."""
        if self.heads == 1:
            return indices
        return (indices[:, None] * self.heads + torch.arange(self.heads, device=indices.device)).flatten()

    def _indices(self, documents: object, *, adding: bool = False) -> Int[Tensor, " D"]:
        """The indices of documents, by name or as they are."""
        if isinstance(documents, str):
            documents = [documents]
        if _are_names(documents):
            return torch.tensor(self._find(documents, adding), dtype=torch.int64, device=self.values.device)
        if isinstance(documents, Sequence) and all(type(number) is int for number in documents):
            documents = torch.tensor(documents)
        if not isinstance(documents, Tensor):
            raise ShapeError.expected("documents", "names, or whole numbers [D]", type(documents).__name__)
        # A boolean mask would be taken for documents 0 and 1.
        if documents.ndim != 1 or documents.is_floating_point() or documents.dtype == torch.bool:
            came = f"{documents.dtype} {checks.shape_of(documents)}"
            raise ShapeError.expected("documents", "names, or whole numbers [D]", came)
        if len(documents):
            low, high = (int(bound) for bound in torch.aminmax(documents))
            if low < 0 or high >= self.documents:
                wrong = low if low < 0 else high
                raise ShapeError.expected("documents", f"numbers from 0 to {self.documents - 1}", str(wrong))
        return documents.to(self.values.device, torch.int64).contiguous()

    def _find(self, names: Sequence[str], adding: bool) -> list[int]:
        """The places of names; new ones are given the next places, all or none of them."""
        unknown = dict.fromkeys(name for name in names if name not in self._places)
        if unknown and not adding:
            raise UnknownDocumentError.named(next(iter(unknown)))
        if unknown and self._numbered:
            raise OptionError(
                "MemoryBank: a bank that was filled by indices has no place for new names", "give indices"
            )
        first = len(self._places)
        if first + len(unknown) > self.documents:
            needed = f"{first} and {len(unknown)} more"
            raise OptionError.expected(
                "MemoryBank", f"at most {self.documents} documents", needed, "make a larger bank"
            )
        self._places |= {name: first + place for place, name in enumerate(unknown)}
        return [self._places[name] for name in names]


def _are_names(documents: object) -> TypeGuard[Sequence[str]]:
    return isinstance(documents, Sequence) and all(isinstance(name, str) for name in documents)


@functools.cache
def _fold_order(size: int, device: torch.device) -> Int[Tensor, " p"]:
    """The position in the packed triangle of each value of a folded memory of even size.

    >>> _fold_order(4, torch.device("cpu")).tolist()  # C_00 C_32 | C_10 C_11 || C_20 C_21 | C_30 C_31 || C_22 C_33
    [0, 8, 1, 2, 3, 4, 6, 7, 5, 9]
    """
    m = size // 2
    r, c = torch.arange(m)[:, None], torch.arange(m)[None, :]
    folded = torch.where(c <= r, _packed_index(r, c), _packed_index(m + c, m + r))
    diagonal = m + torch.arange(m)
    return torch.cat(
        [folded.flatten(), _packed_index(m + r, c).flatten(), _packed_index(diagonal, diagonal)]
    ).to(device)


def _packed_index(row: Tensor, column: Tensor) -> Tensor:
    """The position of C_ij, j ≤ i, in the packed triangle."""
    return row * (row + 1) // 2 + column
