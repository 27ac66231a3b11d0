"""Published encoders: their folders, and MPNet's states."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from attar.errors import FormatError
from attar.options import TransformerShape
from attar.training.published import RelativeTransformer, from_published_mpnet, load_base

# Random weights of a tiny MPNet, and its states by transformers 5.17.
PUBLISHED = Path(__file__).parent / "data" / "mpnet.safetensors"
SHAPE = TransformerShape(vocabulary=20, size=8, layers=2, heads=2, feedforward=12, positions=38)


@pytest.fixture(scope="module")
def published() -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(PUBLISHED)


@pytest.fixture(scope="module")
def network(published: dict[str, torch.Tensor]) -> RelativeTransformer:
    network = RelativeTransformer(SHAPE)
    network.load_state_dict(from_published_mpnet(published, layers=2))
    return network.eval()


def test_the_states_are_those_of_mpnet(
    network: RelativeTransformer, published: dict[str, torch.Tensor]
) -> None:
    mask = published["test.mask"]
    states = network(published["test.ids"], mask)
    torch.testing.assert_close(states[mask], published["test.states"][mask], rtol=0, atol=2e-6)


class TestBase:
    def changed(self, base: Path, folder: Path, weights: dict[str, torch.Tensor]) -> Path:
        """A copy of the folder with other weights."""
        for name in ("tokenizer.json", "config.json"):
            (folder / name).write_bytes((base / name).read_bytes())
        safetensors.torch.save_file(weights, folder / "model.safetensors")
        return folder

    def test_word_vectors_may_be_int8(self, base: Path, tmp_path: Path) -> None:
        weights = safetensors.torch.load_file(base / "model.safetensors")
        words = weights["embeddings.word_embeddings.weight"]
        scale = words.abs().amax(1) / 127
        weights["embeddings.word_embeddings.weight"] = (words / scale[:, None]).round().to(torch.int8)
        weights["embeddings.word_embeddings.scale"] = scale
        loaded = load_base(self.changed(base, tmp_path, weights)).weights["words.weight"]
        torch.testing.assert_close(loaded, words, atol=2e-3, rtol=0)

    @pytest.mark.parametrize(
        "missing", ["embeddings.word_embeddings.weight", "encoder.layer.0.output.dense.bias"]
    )
    def test_a_missing_weight_is_named_with_the_folder(
        self, base: Path, tmp_path: Path, missing: str
    ) -> None:
        weights = safetensors.torch.load_file(base / "model.safetensors")
        del weights[missing]
        folder = self.changed(base, tmp_path, weights)
        with pytest.raises(
            FormatError, match=rf"is not the folder of an encoder: there is no '{missing}'; give"
        ) as mistake:
            load_base(folder)
        assert str(mistake.value).startswith(str(folder))
