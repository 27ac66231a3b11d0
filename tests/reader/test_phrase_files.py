"""A phrase reader is saved as a folder with int8 weights and loaded again; damaged or foreign files are refused."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from attar.errors import FormatError
from attar.reader.confidence import FEATURES, Calibration
from attar.reader.folders import fingerprint_of
from attar.reader.phrase_files import with_calibration
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from benchmarks.tiny_reader import tiny_tokenizer

TEXT, QUESTION = "Ann met Bob in Bath. He wrote a letter.", "Who met Bob?"


@pytest.fixture
def folder(phrase_reader, tmp_path) -> Path:
    phrase_reader.save(tmp_path / "reader")
    return tmp_path / "reader"


def rewrite(folder: Path, change=lambda network: None, **weights) -> None:
    """Change the config and the weights of a folder, with a fingerprint that fits: a forgery, not an accident."""
    config = json.loads((folder / "config.json").read_text())
    change(config["network"])
    tensors = safetensors.torch.load((folder / "weights.safetensors").read_bytes())
    for name, value in weights.items():
        tensors.pop(name) if value is None else tensors.update({name: value})
    (folder / "weights.safetensors").write_bytes(safetensors.torch.save(tensors))
    tokenizer = (folder / "tokenizer.json").read_bytes()
    config["fingerprint"] = fingerprint_of(config["network"], tokenizer, tensors)
    (folder / "config.json").write_text(json.dumps(config))


def refused(folder: Path, match: str) -> None:
    with pytest.raises(FormatError, match=match) as error:
        Reader.load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


class TestRoundTrip:
    def test_a_loaded_reader_saved_again_has_the_same_files(self, folder, tmp_path):
        loaded = Reader.load(folder)
        assert isinstance(loaded, PhraseReader)
        assert loaded.save(tmp_path / "again") == loaded.fingerprint
        for file in ("config.json", "tokenizer.json", "weights.safetensors"):
            assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()

    def test_a_loaded_reader_gives_the_same_memories_and_answers_again(self, folder):
        one, other = Reader.load(folder), Reader.load(folder)
        memory = one.read(TEXT)
        assert memory == other.read(TEXT)
        assert one.answer(memory, QUESTION) == other.answer(memory, QUESTION)

    def test_int8_weights_are_within_half_a_level(self, folder, phrase_reader):
        exact, loaded = phrase_reader.network.state_dict(), Reader.load(folder).network.state_dict()
        assert exact.keys() == loaded.keys()
        for name, value in exact.items():
            allowed = value.abs().max() / 127 if value.ndim > 1 else 0.001 * value.abs().max() + 1e-3
            assert (loaded[name] - value).abs().max() <= allowed, name

    def test_everything_else_is_kept(self, saved_phrases, tmp_path):
        calibration = Calibration((0.5,) * len(FEATURES), (1.0,) * len(FEATURES), 0.6)
        changed = {"density": 0.7, "calibration": calibration, "distinct": True}
        saved = saved_phrases.__class__(**{**vars(saved_phrases), **changed})
        saved.about = {"data": "made up"}
        PhraseReader(saved).save(tmp_path)
        loaded = Reader.load(tmp_path)
        assert (loaded.density, loaded.calibration, loaded.about) == (0.7, calibration, {"data": "made up"})
        assert loaded.quick is not None
        assert loaded.saved.distinct

    def test_another_calibration_leaves_the_weights_as_they_are(self, folder, tmp_path):
        before = Reader.load(folder)
        calibration = Calibration((0.5,) * len(FEATURES), (1.0,) * len(FEATURES), 0.6)
        fingerprint = with_calibration(folder, tmp_path / "again", calibration, {"more": 1})
        loaded = Reader.load(tmp_path / "again")
        assert fingerprint == loaded.fingerprint != before.fingerprint
        assert (loaded.calibration, loaded.about["more"]) == (calibration, 1)
        for name in ("weights.safetensors", "tokenizer.json"):
            assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()

    def test_loading_does_not_change_the_random_state(self, folder):
        torch.manual_seed(1)
        expected = torch.rand(1)
        torch.manual_seed(1)
        Reader.load(folder)
        assert torch.rand(1) == expected


class TestDamage:
    @pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "weights.safetensors"])
    def test_a_missing_or_cut_file_is_named(self, folder, name):
        data = (folder / name).read_bytes()
        for cut in (0, 7, 50, len(data) // 2, len(data) - 3):
            (folder / name).write_bytes(data[:cut])
            refused(folder, name.replace(".", r"\."))
        (folder / name).unlink()
        refused(folder, f"{name}: expected a reader's file")

    @pytest.mark.parametrize("name", ["tokenizer.json", "weights.safetensors"])
    def test_files_of_another_reader_are_detected(self, folder, name):
        data = bytearray((folder / name).read_bytes())
        data[-1] = data[-1] ^ 1 if name.startswith("weights") else data[-1]
        (folder / name).write_bytes(data if name.startswith("weights") else data + b"\n")
        refused(folder, "got other files; copy the whole folder again")

    @pytest.mark.parametrize(
        ("weights", "match"),
        [
            ({"network.first.weight": None}, "first.weight: expected none"),
            ({"network.encoder.norm.bias": None}, "norm.bias"),
            ({"network.encoder.words.weight": torch.zeros(3, 16)}, r"words.weight: expected \[3, 16\]"),
            ({"network.query.bias": torch.zeros(9)}, "query.bias"),
            ({"network.more": torch.zeros(2)}, "network.more|more"),
            ({"network.query.bias": torch.full((8,), torch.nan)}, "expected finite weights"),
            ({"network.encoder.words.weight.scale": torch.zeros(3)}, r"weights\.safetensors"),
            ({"network.encoder.layers.layers.7.linear1.bias": torch.zeros(3)}, "expected 2 layers"),
        ],
        ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
    )
    def test_other_weights_are_refused(self, folder, weights, match):
        rewrite(folder, **weights)
        refused(folder, match)

    @pytest.mark.parametrize("value", [-1, 0, 10**12, 2**70, 1.5, "8", None, [], True])
    @pytest.mark.parametrize(
        "place",
        [
            "size",
            "word_size",
            *(f"encoder {name}" for name in ("vocabulary", "size", "layers", "feedforward")),
        ],
    )
    def test_sizes_other_than_those_of_the_weights_are_refused_before_they_are_used(
        self, folder, place, value
    ):
        def change(network):
            *groups, last = place.split()
            options = network["phrases"]["encoder"] if groups else network["phrases"]
            options[last] = value

        rewrite(folder, change)
        refused(folder, r"config\.json")

    @pytest.mark.parametrize(
        "change",
        [
            lambda network: network.clear(),
            lambda network: network.pop("density"),
            lambda network: network.update(density=0),
            lambda network: network.update(density=1e300),
            lambda network: network.update(density="0.4"),
            lambda network: network.update(calibration=[1.0]),
            lambda network: network.update(calibration={}),
            lambda network: network.update(calibration={"right": [0.0], "absent": [0.0], "threshold": 0.5}),
            lambda network: network.update(phrases=[]),
            lambda network: network.update(more=1),
            lambda network: network["phrases"].update(more=1),
            lambda network: network["phrases"].update(match="other"),
            lambda network: network["phrases"].update(encoder=3),
            lambda network: network["phrases"]["encoder"].update(heads=0),
            lambda network: network["phrases"]["encoder"].update(heads=3),
            lambda network: network["phrases"]["encoder"].update(heads=10**12),
            lambda network: network["phrases"]["encoder"].update(positions=2**40),
            lambda network: network.update(quick={"shared": 9, "layers": 1}),
            lambda network: network.update(quick={"shared": 0, "layers": 10**9}),
            lambda network: network.update(quick=None),
            lambda network: network.update(quick=[]),
        ],
    )
    def test_a_config_with_other_options_is_refused(self, folder, change):
        rewrite(folder, change)
        refused(folder, r"config\.json")

    def test_a_network_with_too_few_positions_is_refused(self, folder):
        def change(network):
            network["phrases"]["encoder"]["positions"] = 100

        rewrite(folder, change, **{"network.encoder.positions.weight": torch.zeros(100, 16)})
        refused(folder, "expected 320 positions or more")

    @pytest.mark.parametrize(
        "config",
        [b"", b"[]", b"null", b"{", b'{"kind": "phrases"}', b"\xff", b"[" * 100_000],
        ids=["empty", "list", "null", "cut", "kind only", "not UTF-8", "deeply nested"],
    )
    def test_another_file_is_not_a_config(self, folder, config):
        (folder / "config.json").write_bytes(config)
        refused(folder, "config.json: expected a (phrase )?reader's config")

    def test_a_newer_format_asks_for_a_newer_attar(self, folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"format": 99, "more": 1}))
        refused(folder, "got 99; install a newer attar")

    def test_a_tokenizer_with_more_pieces_than_the_network_is_refused(self, folder):
        (folder / "tokenizer.json").write_bytes(tiny_tokenizer("galley", "valley"))
        rewrite(folder)
        refused(folder, "tokenizer.json: expected at most the network's")

    def test_a_tokenizer_without_special_tokens_is_refused(self, folder):
        data = (folder / "tokenizer.json").read_bytes()
        (folder / "tokenizer.json").write_bytes(data.replace(b"[CLS]", b"[ABC]"))
        rewrite(folder)
        refused(folder, r"tokenizer.json: expected a vocabulary with \[CLS\]")
