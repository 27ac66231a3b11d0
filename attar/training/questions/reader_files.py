"""Stand-in for the phrase reader's files, until `attar.reader` has them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch

from attar.nn import PhraseNetwork, PhraseOptions, QuickQuestions, TransformerShape
from attar.text import PieceTokenizer


@dataclass
class SavedPhrases:
    """The contents of a phrase reader's folder."""

    network: PhraseNetwork
    quick: QuickQuestions | None
    tokenizer: PieceTokenizer
    about: dict[str, Any]
    density: float
    calibration: tuple[float, float]


def save_phrase_reader(
    path: str | Path,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    about: dict[str, Any] | None = None,
    *,
    density: float = 0.4,
    calibration: tuple[float, float] = (1.0, 0.0),
) -> str:
    """Write a phrase reader's folder."""
    folder = Path(path)
    state = {f"network.{name}": value.half() for name, value in network.state_dict().items()}
    options: dict[str, Any] = {"phrases": asdict(network.options), "density": density}
    options["calibration"] = list(calibration)
    if quick is not None:
        state |= {f"quick.{name}": value.half() for name, value in quick.state_dict().items()}
        options["quick"] = {"shared": quick.shared, "layers": len(quick.layers.layers)}
    (folder / "tokenizer.json").write_bytes(tokenizer)
    safetensors.torch.save_file(state, folder / "weights.safetensors")
    (folder / "config.json").write_text(json.dumps({"network": options, "about": about or {}}))
    return ""


def load_phrase_reader(path: str | Path) -> SavedPhrases:
    """Load a phrase reader's folder."""
    folder = Path(path)
    config = json.loads((folder / "config.json").read_text())
    options = config["network"]
    shape = TransformerShape(**options["phrases"].pop("encoder"))
    sizes = PhraseOptions(**options["phrases"], encoder=shape)
    weights = safetensors.torch.load_file(folder / "weights.safetensors")

    def part(prefix: str) -> dict[str, Any]:
        return {n.removeprefix(prefix): v.float() for n, v in weights.items() if n.startswith(prefix)}

    network = PhraseNetwork(sizes)
    network.load_state_dict(part("network."))
    quick = None
    if "quick" in options:
        quick = QuickQuestions(sizes, **options["quick"])
        quick.load_state_dict(part("quick."))
    tokenizer = PieceTokenizer.load(folder / "tokenizer.json")
    return SavedPhrases(
        network, quick, tokenizer, config["about"], options["density"], tuple(options["calibration"])
    )
