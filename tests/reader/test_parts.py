"""A reader is saved as a folder with int8 weights and loaded again; damaged or foreign files are refused."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import safetensors.numpy
import torch

from attar.errors import FormatError
from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.reader.folders import FEATURES, SHIPPED, Calibration, NetworkConfig, ReaderFolder
from attar.reader.parts import fingerprint_of, recalibrate, weight_shapes
from attar.reader.reader import Reader
from benchmarks.tiny_reader import tiny_parts, tiny_tokenizer

FILES = ["config.json", "tokenizer.json", "weights.safetensors"]
CALIBRATION = Calibration((0.5,) * len(FEATURES), (1.0,) * len(FEATURES), 0.6)


@pytest.fixture
def folder(parts, tmp_path) -> Path:
    parts.save(tmp_path / "reader")
    return tmp_path / "reader"


def rewrite(folder: Path, change=lambda network: None, **weights) -> None:
    """Change the config and the weights of a folder, with a fingerprint that fits: a forgery, not an accident."""
    config = json.loads((folder / "config.json").read_text())
    change(config["network"])
    arrays = safetensors.numpy.load((folder / "weights.safetensors").read_bytes())
    for name, value in weights.items():
        arrays.pop(name) if value is None else arrays.update({name: value})
    (folder / "weights.safetensors").write_bytes(safetensors.numpy.save(arrays))
    try:
        network = msgspec.convert(config["network"], NetworkConfig)
        tokenizer = (folder / "tokenizer.json").read_bytes()
        config["fingerprint"] = fingerprint_of(network, tokenizer, arrays)
    except ValueError:  # refused before the fingerprint is compared
        pass
    (folder / "config.json").write_text(json.dumps(config))


def refused(folder: Path, match: str) -> None:
    with pytest.raises(FormatError, match=match) as error:
        Reader.load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


class TestRoundTrip:
    def test_a_loaded_reader_saved_again_has_the_same_files(self, folder, tmp_path):
        loaded = Reader.load(folder)
        assert loaded.save(tmp_path / "again") == loaded.fingerprint
        for file in FILES:
            assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()

    def test_a_loaded_reader_gives_the_same_memories_and_answers(self, folder, reader):
        loaded, text = Reader.load(folder), "Ann met Bob in Bath. He wrote a letter."
        memory = reader.read(text)
        assert loaded.read(text) == memory
        assert loaded.answer(memory, "Who met Bob?") == reader.answer(memory, "Who met Bob?")

    def test_int8_weights_are_within_half_a_level(self, parts):
        torch.manual_seed(0)
        network = PhraseNetwork(parts.options)
        loaded = parts.of(network, None, parts.tokenizer.data).network().state_dict()
        for name, value in network.state_dict().items():
            allowed = value.abs().max() / 127 if value.ndim > 1 else 0.001 * value.abs().max() + 1e-3
            assert (loaded[name] - value).abs().max() <= allowed, name

    def test_another_calibration_leaves_the_weights_as_they_are(self, folder, tmp_path):
        before = Reader.load(folder)
        recalibrate(ReaderFolder.open(folder), tmp_path / "again", CALIBRATION, {"more": 1})
        loaded = Reader.load(tmp_path / "again")
        assert loaded.fingerprint != before.fingerprint
        assert (loaded.calibration, loaded.about["more"]) == (CALIBRATION, 1)
        for name in FILES[1:]:
            assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()

    @pytest.mark.parametrize("values", [0, 6])
    def test_the_shapes_of_the_table_are_those_of_the_networks(self, values):
        parts = tiny_parts(values=values)
        quick = QuickQuestions(parts.options, 1, 1)
        states = {"network": PhraseNetwork(parts.options).state_dict(), "quick": quick.state_dict()}
        assert weight_shapes(parts.config.network) == {
            f"{part}.{name}": tuple(value.shape)
            for part, state in states.items()
            for name, value in state.items()
        }


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_or_cut_file_is_named(self, folder, name):
        data = (folder / name).read_bytes()
        for cut in (0, 7, 50, len(data) // 2, len(data) - 3):
            (folder / name).write_bytes(data[:cut])
            refused(folder, name.replace(".", r"\."))
        (folder / name).unlink()
        refused(folder, f"cannot read .*{name}: No such file")

    @pytest.mark.parametrize("name", FILES[1:])
    def test_files_of_another_reader_are_detected(self, folder, name):
        data = bytearray((folder / name).read_bytes())
        data[-1] = data[-1] ^ 1 if name.startswith("weights") else data[-1]
        (folder / name).write_bytes(data if name.startswith("weights") else data + b"\n")
        refused(folder, "the files are not those of one reader; copy the whole folder again")

    @pytest.mark.parametrize(
        ("weights", "match"),
        [
            ({"network.encoder.words.weight": None}, "scales, one per row"),
            ({"network.encoder.norm.bias": None}, "has no weights 'network.encoder.norm.bias'"),
            ({"network.encoder.words.weight": np.zeros((3, 16), np.float32)}, r"float32 \[3, 16\]"),
            ({"network.query.bias": np.zeros(9, np.float32)}, "query.bias"),
            ({"network.query.bias": np.zeros(8, np.float64)}, "float64"),
            ({"network.more": np.zeros(2, np.float32)}, "network.more"),
            ({"network.query.bias": np.full(8, np.nan, np.float32)}, "expected finite weights"),
            ({"network.encoder.words.weight.scale": np.zeros(3, np.float32)}, "one per row"),
            ({"network.encoder.types.weight.scale": np.full(2, 3e38, np.float32)}, "finite scales"),
            ({"network.encoder.layers.layers.7.linear1.bias": np.zeros(3, np.float32)}, "layers.7"),
        ],
        ids=[
            "missing matrix", "missing vector", "other shape", "longer", "other type", "unknown", "NaN",
            "too few scales", "infinite scales", "one more layer",
        ],
    )  # fmt: skip
    def test_other_weights_are_refused(self, folder, weights, match):
        rewrite(folder, **weights)
        refused(folder, match)

    @pytest.mark.parametrize("value", [-1, 0, 10**12, 2**70, 1.5, "8", None, [], True])
    @pytest.mark.parametrize(
        "place", ["size", "word_size", "encoder vocabulary", "encoder size", "encoder layers"]
    )
    def test_sizes_other_than_those_of_the_weights_are_refused_before_they_are_used(
        self, folder, place, value
    ):
        def change(network):
            *groups, last = place.split()
            options = network["phrases"]["encoder"] if groups else network["phrases"]
            options[last] = value

        rewrite(folder, change)
        refused(folder, r"config\.json|weights\.safetensors")

    @pytest.mark.parametrize(
        "change",
        [
            lambda network: network.clear(),
            lambda network: network.pop("density"),
            lambda network: network.update(density=0),
            lambda network: network.update(calibration=[1.0]),
            lambda network: network.update(calibration={"right": [0.0], "absent": [0.0], "threshold": 0.5}),
            lambda network: network.update(more=1),
            lambda network: network["phrases"].update(match="other"),
            lambda network: network["phrases"]["encoder"].update(heads=3),
            lambda network: network["phrases"]["encoder"].update(positions=100),
            lambda network: network.update(quick={"shared": 9, "layers": 1}),
        ],
        ids=[
            "nothing", "no density", "no phrases", "list as calibration", "short calibration", "unknown option",
            "unknown overlap", "three heads", "few positions", "more shared layers",
        ],
    )  # fmt: skip
    def test_a_config_with_other_options_is_refused(self, folder, change):
        rewrite(folder, change)
        refused(folder, r"config\.json is damaged, or not a reader's: .+; copy the whole folder again")

    @pytest.mark.parametrize(
        "config",
        [b"", b"[]", b"null", b"{", b'{"kind": "phrases"}', b"\xff", b"[" * 100_000],
        ids=["empty", "list", "null", "cut", "kind only", "not UTF-8", "deeply nested"],
    )
    def test_another_file_is_not_a_config(self, folder, config):
        (folder / "config.json").write_bytes(config)
        refused(folder, "config.json is damaged, or not a reader's")

    def test_a_newer_format_asks_for_a_newer_attar(self, folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"format": 99, "more": 1}))
        refused(folder, "a reader of a later version; install a newer attar")

    def test_a_tokenizer_with_more_pieces_than_the_network_is_refused(self, folder):
        (folder / "tokenizer.json").write_bytes(tiny_tokenizer("galley", "valley"))
        rewrite(folder)
        refused(folder, "the tokenizer has more than the network's")


def fixed_config(folder, **changed) -> Path:
    """A folder with the config of `fixed`, some of its fields changed."""
    config = json.loads((SHIPPED / "fixed" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changed))
    return folder


class TestFixed:
    """The reader `fixed` has the files of the default one and a calibration of its own."""

    @pytest.mark.parametrize(
        ("changed", "match"),
        [
            ({"weights": "x"}, "unknown field `weights`"),
            ({"fingerprint": "0" * 64}, "made of another default reader"),
            ({"calibration": None}, "Expected `object`, got `null`"),
        ],
    )
    def test_other_configs_are_refused(self, tmp_path, changed, match):
        refused(fixed_config(tmp_path, **changed), match)
