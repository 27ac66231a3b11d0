"""A bank of packed memories on one device, queried by (document, query) pairs: millions of documents on one GPU.

The cost of a lookup is the bytes it reads. So a memory is stored as k(k+1)/2 values of bfloat16 or int8 and read once,
in full rows. With k = 2m, the two triangles on the diagonal fold into one square, and the block between is a square:

    m × m   C_rc for c ≤ r, the first triangle;  C_(m+c)(m+r) for c > r, the second without its diagonal
    m × m   C_(m+r)c, the block between
    m       the second triangle's diagonal

An odd k is padded with one row of zeros.
"""

import functools

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import DtypeError, OptionError, ShapeError
from attar.ops.checks import check_device, check_floats, check_shape, choose_backend, shape_of
from attar.ops.packed.triangle import dequantize, pack, quantize, unpack

# Documents that are unpacked at a time without the kernel.
UNPACKED_AT_ONCE = 1024
# For larger k, the kernel's two tiles do not fit into the registers of a program.
LARGEST_IN_KERNEL = 256


class MemoryBank:
    """Packed memories by document index.

    >>> bank = MemoryBank(documents=10, size=2, device="cpu")
    >>> bank.write(torch.tensor([7]), torch.tensor([[[1.0, 2.0], [2.0, 5.0]]]))
    >>> bank.lookup(torch.tensor([7, 7]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """

    def __init__(
        self,
        documents: int,
        size: int,
        *,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cuda",
        backend: str = "auto",
    ) -> None:
        if dtype not in (torch.bfloat16, torch.float16, torch.float32, torch.int8):
            raise DtypeError.expected("dtype", "bfloat16, float16, float32 or int8", str(dtype))
        if documents < 0 or size < 1:
            raise OptionError.expected(
                "MemoryBank", "documents >= 0 and size >= 1", f"{documents} and {size}"
            )
        self.size, self.documents, self.backend = size, documents, backend
        self.padded_size = size + size % 2
        self.values = torch.zeros(
            documents, self.padded_size * (self.padded_size + 1) // 2, dtype=dtype, device=device
        )
        quantized = dtype == torch.int8
        self.scales = (
            torch.zeros(documents, self.padded_size, dtype=torch.bfloat16, device=device)
            if quantized
            else None
        )

    @property
    def nbytes(self) -> int:
        """The bytes of device memory that the bank uses."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def write(self, documents: Int[Tensor, " D"], memories: Float[Tensor, "D k k"]) -> None:
        """Store memories at their documents' indices, replacing earlier ones."""
        check_floats("memories", memories, "D k k")
        indices = self._indices(documents)
        check_shape("memories", memories, (len(indices), self.size, self.size), "one memory per document")
        packed = pack(self._padded(memories.to(self.values.device, torch.float32), 2))
        folded = _fold_order(self.padded_size, packed.device)
        if self.scales is None:
            self.values[indices] = packed[:, folded].to(self.values.dtype)
        else:
            values, scales = quantize(packed, scale_dtype=self.scales.dtype)
            self.values[indices] = values[:, folded]
            self.scales[indices] = scales.to(self.scales.dtype)

    def read(self, documents: Int[Tensor, " D"]) -> Float[Tensor, "D k k"]:
        """The memories as they are stored, in float32."""
        return self._unfolded(self._indices(documents))[:, : self.size, : self.size]

    def lookup(self, documents: Int[Tensor, " Q"], queries: Float[Tensor, "Q k"]) -> Float[Tensor, "Q k"]:
        """C q for each pair of a document index and a query; float32."""
        check_floats("queries", queries, "Q k")
        indices = self._indices(documents)
        check_shape("queries", queries, (len(indices), self.size), "one query per document index")
        check_device("queries", queries, self.values)
        queries = self._padded(queries, 1)
        if choose_backend(self.backend, queries) == "triton" and self.padded_size <= LARGEST_IN_KERNEL:
            from attar.ops.triton.bank import lookup

            return lookup(self.values, self.scales, indices, queries)[:, : self.size]
        queries = queries.float()
        parts = zip(
            torch.split(indices, UNPACKED_AT_ONCE), torch.split(queries, UNPACKED_AT_ONCE), strict=True
        )
        readouts = [torch.bmm(self._unfolded(some), q[:, :, None])[:, :, 0] for some, q in parts]
        return torch.cat(readouts)[:, : self.size]

    def _padded(self, tensor: Tensor, axes: int) -> Tensor:
        """The tensor with its last dimensions padded by one 0 where k is odd."""
        if self.padded_size == self.size:
            return tensor  # padding by nothing would copy it
        return torch.nn.functional.pad(tensor, (0, self.padded_size - self.size) * axes)

    def _unfolded(self, indices: Tensor) -> Tensor:
        packed = torch.empty(
            len(indices), self.values.shape[1], device=indices.device, dtype=self.values.dtype
        )
        packed[:, _fold_order(self.padded_size, indices.device)] = self.values[indices]
        if self.scales is None:
            return unpack(packed.float())
        return unpack(dequantize(packed, self.scales[indices].float()))

    def _indices(self, documents: Tensor) -> Tensor:
        # A boolean mask would be taken for documents 0 and 1.
        numbers = (
            isinstance(documents, Tensor)
            and not documents.is_floating_point()
            and documents.dtype != torch.bool
        )
        if not numbers or documents.ndim != 1:
            came = shape_of(documents) if isinstance(documents, Tensor) else type(documents).__name__
            raise ShapeError.expected("documents", "a tensor of whole numbers [D]", came)
        if len(documents):
            low, high = (int(bound) for bound in torch.aminmax(documents))
            if low < 0 or high >= self.documents:
                wrong = low if low < 0 else high
                raise ShapeError.expected("documents", f"numbers from 0 to {self.documents - 1}", str(wrong))
        return documents.to(self.values.device, torch.int64).contiguous()


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
