"""The model of transformers_memory.py: attention to stored memories of documents, and a cache that is a memory."""

from memory_cache import MemoryLayer
from torch import Tensor, nn
from transformers import Cache, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from attar.nn import Memories, MemoryAttention


class MemoryConfig(PretrainedConfig):
    model_type = "attar_memory"

    def __init__(
        self, vocab_size: int = 64, hidden_size: int = 64, heads: int = 2, layers: int = 1, **options
    ):
        self.vocab_size, self.hidden_size, self.heads, self.num_hidden_layers = (
            vocab_size,
            hidden_size,
            heads,
            layers,
        )
        super().__init__(**options)


class Block(nn.Module):
    """Causal attention to the prompt, cross-attention to a document, and an MLP."""

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.norms = nn.ModuleList(nn.RMSNorm(size) for _ in range(3))
        self.prompt = MemoryAttention(size, config.heads, "keyed", normalize=True)
        self.document = MemoryAttention(size, config.heads, "keyed", ridge=True)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: Tensor, document: Memories, past: MemoryLayer | None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.prompt.lookup_along(y, memories=None if past is None else past.update(y))
        x = x + self.document.lookup(document, self.norms[1](x))
        return x + self.mlp(self.norms[2](x))


class MemoryForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = MemoryConfig

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.neighbours = nn.Conv1d(config.hidden_size, config.hidden_size, kernel_size=2)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def read(self, documents: Tensor) -> list[Memories]:
        """The memories of documents, one per block; each token with the one before it."""
        states = self.neighbours(self.embedding(documents).mT).mT
        return [block.document.encode(states).prepare() for block in self.blocks]

    def forward(
        self, input_ids: Tensor, memories: list[Memories], past_key_values=None, labels=None, **_: object
    ):
        x = self.embedding(input_ids)
        for i, block in enumerate(self.blocks):
            document = memories[i].repeat_interleave(len(x) // len(memories[i]))  # beams
            x = block(x, document, None if past_key_values is None else past_key_values.layers[i])
        logits = self.head(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits[:, -1], labels)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def new_cache(self) -> Cache:
        """A cache for one prompt."""
        return Cache(layers=[MemoryLayer(block.prompt) for block in self.blocks])
