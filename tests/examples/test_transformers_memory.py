"""A model of transformers that attends to memories of documents, and its cache."""

import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", minversion="5.0", reason="transformers 5 is not installed")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def model(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    for name in ("memory_model", "memory_cache"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from memory_model import MemoryConfig, MemoryForCausalLM

    return MemoryForCausalLM(MemoryConfig(layers=2)).eval()


def tokens(batch, n):
    return torch.randint(64, (batch, n))


@torch.no_grad()
def test_a_cache_gives_the_logits_of_the_whole_prompt(model):
    memories, prompt, cache = model.read(tokens(2, 20)), tokens(2, 9), model.new_cache()
    whole = model(prompt, memories).logits
    parts = [model(part, memories, past_key_values=cache).logits for part in prompt.split([4, 1, 4], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-4)
    assert cache.get_seq_length() == 9


@torch.no_grad()
def test_a_cropped_cache_is_as_if_the_tokens_had_never_been_read(model):
    memories, prompt, cache = model.read(tokens(2, 20)), tokens(2, 9), model.new_cache()
    model(prompt, memories, past_key_values=cache)
    cache.crop(-3)
    assert cache.is_croppable
    assert cache.get_seq_length() == 6
    fresh = model.new_cache()
    model(prompt[:, :6], memories, past_key_values=fresh)
    for found, expected in zip(cache.layers, fresh.layers, strict=True):
        assert found.memories.allclose(expected.memories, atol=1e-4)
    following = [model(prompt[:, 6:], memories, past_key_values=each).logits for each in (cache, fresh)]
    torch.testing.assert_close(*following, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_values_of_stored_documents_are_found(run_example, share):
    printed = run_example("transformers_memory.py", "--steps", 120)
    assert "gives the same tokens: True" in printed
    found = [word for word in printed.split() if word.endswith("%")]
    assert share(found[0]) > 0.2  # chance is 3 %
