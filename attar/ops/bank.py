"""A bank of packed memories on one device, asked by (document, query) pairs: millions of documents, one GPU.

A lookup's cost is its bytes. So a memory is stored as k(k+1)/2 numbers of bfloat16 or int8 and read once, in full
rows. With k = 2m, the two triangles on the diagonal fold into one square, and the block between them is a square:

    m × m   C_rc for c ≤ r, the first triangle;  C_(m+c)(m+r) for c > r, the second without its diagonal
    m × m   C_(m+r)c, the block between
    m       the second triangle's diagonal

An odd k is stored with one more row of zeros.
"""

import functools

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import DtypeError, OptionError, ShapeError
from attar.ops import checks
from attar.ops.backends import choose_backend
from attar.ops.packed import dequantize, pack, quantize, unpack

# Documents that are unpacked at a time where there is no kernel to read them as they are.
UNPACKED_AT_ONCE = 1024
# Beyond, the kernel's two tiles outgrow a program's registers.
LARGEST_FUSED = 256


class MemoryBank:
    """Packed memories by document number.

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
            raise DtypeError("dtype", "bfloat16, float16, float32 or int8", str(dtype))
        if documents < 0 or size < 1:
            raise OptionError("MemoryBank", "documents >= 0 and size >= 1", f"{documents} and {size}")
        self.size, self.documents, self.backend = size, documents, backend
        self.even = size + size % 2
        self.values = torch.zeros(documents, self.even * (self.even + 1) // 2, dtype=dtype, device=device)
        quantized = dtype == torch.int8
        self.scales = (
            torch.zeros(documents, self.even, dtype=torch.bfloat16, device=device) if quantized else None
        )

    @property
    def nbytes(self) -> int:
        """What the bank holds of its device's memory."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def write(self, documents: Int[Tensor, " D"], memories: Float[Tensor, "D k k"]) -> None:
        """Store memories under their documents' numbers, over what was there."""
        checks.check_floats("memories", memories, "D k k")
        places = self._places(documents)
        checks.check_shape("memories", memories, (len(places), self.size, self.size), "one memory a document")
        packed = pack(self._evened(memories.to(self.values.device, torch.float32), 2))
        folded = fold_order(self.even, packed.device)
        if self.scales is None:
            self.values[places] = packed[:, folded].to(self.values.dtype)
        else:
            values, scales = quantize(packed, scale_dtype=self.scales.dtype)
            self.values[places] = values[:, folded]
            self.scales[places] = scales.to(self.scales.dtype)

    def read(self, documents: Int[Tensor, " D"]) -> Float[Tensor, "D k k"]:
        """The memories as they are stored, in float32."""
        return self._unfolded(self._places(documents))[:, : self.size, : self.size]

    def lookup(self, documents: Int[Tensor, " Q"], queries: Float[Tensor, "Q k"]) -> Float[Tensor, "Q k"]:
        """C q for each pair of a document's number and a query; float32."""
        checks.check_floats("queries", queries, "Q k")
        places = self._places(documents)
        checks.check_shape("queries", queries, (len(places), self.size), "one query a document number")
        checks.check_device("queries", queries, self.values)
        queries = self._evened(queries, 1)
        if choose_backend(self.backend, queries) == "triton" and self.even <= LARGEST_FUSED:
            from attar.ops.fused.bank import lookup

            return lookup(self.values, self.scales, places, queries)[:, : self.size]
        queries = queries.float()
        parts = zip(
            torch.split(places, UNPACKED_AT_ONCE), torch.split(queries, UNPACKED_AT_ONCE), strict=True
        )
        found = [torch.bmm(self._unfolded(some), q[:, :, None])[:, :, 0] for some, q in parts]
        return torch.cat(found)[:, : self.size]

    def _evened(self, tensor: Tensor, axes: int) -> Tensor:
        """The tensor with a zero more at the end of its last axes where k is odd."""
        if self.even == self.size:
            return tensor  # padding by nothing would copy it
        return torch.nn.functional.pad(tensor, (0, self.even - self.size) * axes)

    def _unfolded(self, places: Tensor) -> Tensor:
        packed = torch.empty(len(places), self.values.shape[1], device=places.device, dtype=self.values.dtype)
        packed[:, fold_order(self.even, places.device)] = self.values[places]
        if self.scales is None:
            return unpack(packed.float())
        return unpack(dequantize(packed, self.scales[places].float()))

    def _places(self, documents: Tensor) -> Tensor:
        # A mask of true and false is not what it looks like: it would read documents 0 and 1.
        numbers = (
            isinstance(documents, Tensor)
            and not documents.is_floating_point()
            and documents.dtype != torch.bool
        )
        if not numbers or documents.ndim != 1:
            came = checks.shape_of(documents) if isinstance(documents, Tensor) else type(documents).__name__
            raise ShapeError("documents", "a tensor of whole numbers [D]", came)
        if len(documents):
            low, high = (int(bound) for bound in torch.aminmax(documents))
            if low < 0 or high >= self.documents:
                wrong = low if low < 0 else high
                raise ShapeError("documents", f"numbers from 0 to {self.documents - 1}", str(wrong))
        return documents.to(self.values.device, torch.int64).contiguous()


@functools.cache
def fold_order(size: int, device: torch.device) -> Int[Tensor, " p"]:
    """Where each number of a folded memory of even size stands in the packed triangle.

    >>> fold_order(4, torch.device("cpu")).tolist()  # C_00 C_32 | C_10 C_11 || C_20 C_21 | C_30 C_31 || C_22 C_33
    [0, 8, 1, 2, 3, 4, 6, 7, 5, 9]
    """
    m = size // 2
    r, c = torch.arange(m)[:, None], torch.arange(m)[None, :]
    folded = torch.where(c <= r, place(r, c), place(m + c, m + r))
    diagonal = m + torch.arange(m)
    return torch.cat([folded.flatten(), place(m + r, c).flatten(), place(diagonal, diagonal)]).to(device)


def place(row: Tensor, column: Tensor) -> Tensor:
    """Where C_ij, j ≤ i, stands in the packed triangle."""
    return row * (row + 1) // 2 + column
