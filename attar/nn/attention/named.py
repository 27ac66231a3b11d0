"""One sum of keys a name: a memory whose size follows what the document holds."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.attention.keyed import KeyMechanism
from attar.nn.attention.mechanism import add_tokens
from attar.nn.attention.memories import Memories
from attar.ops import checks

NO_NAME = -1


class NamedAttention(KeyMechanism):
    """C_e = Σ key_t over the tokens t that are name e, a memory `[B, names, k]`: one vector a name.

    `names` says which name each token is, -1 for none; a lookup scores every name, 0 for one that the
    document does not hold. `count` is how many names there are, the highest id + 1 if it is not given; a
    memory grows when a later text brings new names. Keys are made of the tokens that are names, and of no
    others. Names may lie on the CPU beside a GPU's states: then finding them costs no synchronisation.

    >>> named = NamedAttention(1)
    >>> parameters = {"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1), "key.weight": torch.eye(1)}
    >>> named.load_state_dict(parameters)  # every key is half its state
    <All keys matched successfully>
    >>> memories = named.encode(torch.tensor([[[2.0], [4.0], [6.0]]]), names=torch.tensor([[1, -1, 1]]))
    >>> named.lookup(memories, torch.tensor([[[10.0]]])).tolist()
    [[[0.0, 40.0]]]
    """

    name = "named"

    def encode(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths = None,
        *,
        names: Int[Tensor, "B n"] | None = None,
        count: int | None = None,
    ) -> Memories:
        """The names' vectors of each document; `names` must be given."""
        tokens = self.count_tokens(hidden, lengths)
        return Memories(self.write(hidden, lengths, names, count, None), tokens)

    def extend(
        self,
        memories: Memories,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths = None,
        *,
        names: Int[Tensor, "B n"] | None = None,
        count: int | None = None,
    ) -> Memories:
        """The names' vectors after reading on; an id means the name that it meant before."""
        tokens = add_tokens(memories, self.count_tokens(hidden, lengths))
        return Memories(self.write(hidden, lengths, names, count, memories.state), tokens)

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum, name by name: both texts must have been read under one table of names."""
        tokens = add_tokens(earlier, later.tokens)
        count = max(earlier.state.shape[1], later.state.shape[1])
        return Memories(with_room(earlier.state, count) + with_room(later.state, count), tokens)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m names"]:
        """C_e · q / scale: the score of every name."""
        return self.read(memories.state, memories, queries)

    def forward(
        self,
        hidden: Float[Tensor, "B n k"],
        queries: Float[Tensor, "B m k"],
        lengths: checks.Lengths = None,
        *,
        names: Int[Tensor, "B n"] | None = None,
        count: int | None = None,
    ) -> Float[Tensor, "B m names"]:
        """Read documents and look up queries at once, as a training step does."""
        return self.lookup(self.encode(hidden, lengths, names=names, count=count), queries)

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        names: Int[Tensor, "B n"] | None,
        count: int | None,
        initial: Float[Tensor, "B old k"] | None,
    ) -> Float[Tensor, "B names k"]:
        """The vectors of the names, summed in float32 or wider, going on from `initial`."""
        token, document, name = named_tokens(names, hidden, lengths)
        known = int(name.max()) + 1 if name.numel() else 0
        if count is not None and count < known:
            raise ShapeError("names", f"numbers from {NO_NAME} to {count - 1}", str(known - 1), "raise count")
        dtype = checks.accumulation_dtype(hidden.dtype)
        batch, size = hidden.shape[0], self.size
        if initial is None:
            memory = hidden.new_zeros(batch, known if count is None else count, size, dtype=dtype)
        else:
            checks.check_shape("memories.state", initial, (batch, initial.shape[1], size), "[B, names, k]")
            memory = with_room(initial.to(dtype), known if count is None else count)
        count = memory.shape[1]
        place = (document * count + name).to(hidden.device, non_blocking=True)
        # Padding and tokens that are no names are never touched, so nothing of theirs can leak.
        states = hidden.flatten(0, 1).index_select(0, token.to(hidden.device, non_blocking=True))
        keys = self.keys(states).to(dtype)
        return memory.flatten(0, 1).index_add(0, place, keys).view(batch, count, size)


def named_tokens(
    names: Int[Tensor, "B n"] | None, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths
) -> tuple[Int[Tensor, " t"], Int[Tensor, " t"], Int[Tensor, " t"]]:
    """The tokens that are names, by their place in the flattened batch, and each one's document and name.

    >>> token, document, name = named_tokens(torch.tensor([[-1, 7], [5, 6]]), torch.zeros(2, 2, 1), [2, 1])
    >>> token.tolist(), document.tolist(), name.tolist()
    ([1, 2], [0, 1], [7, 5])
    """
    if names is None:
        raise OptionError("names", "the name of each token [B, n], -1 for none", "none", "give names=...")
    if names.is_floating_point() or names.dtype == torch.bool:
        raise DtypeError("names", "whole numbers", str(names.dtype))
    batch, n = hidden.shape[:2]
    checks.check_shape("names", names, (batch, n), "one number a token")
    ids = names.long()
    if lengths is not None:
        counts = torch.as_tensor(lengths, dtype=torch.int64, device=names.device)
        ids = ids.masked_fill(torch.arange(n, device=names.device) >= counts[:, None], NO_NAME)
    if ids.numel() and int(ids.min()) < NO_NAME:
        raise ShapeError("names", f"numbers from {NO_NAME} up", str(int(ids.min())))
    document, place = (ids != NO_NAME).nonzero(as_tuple=True)
    return document * n + place, document, ids[document, place]


def with_room(vectors: Float[Tensor, "B old k"], count: int) -> Float[Tensor, "B names k"]:
    """The vectors with room for so many names at least.

    >>> with_room(torch.ones(1, 1, 1), 3).tolist()
    [[[1.0], [0.0], [0.0]]]
    """
    missing = count - vectors.shape[1]
    return nn.functional.pad(vectors, (0, 0, 0, missing)) if missing > 0 else vectors
