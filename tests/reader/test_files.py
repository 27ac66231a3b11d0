"""A reader is saved as a folder of three files and loaded again; damaged or foreign files are refused."""

import json
import os
from dataclasses import replace

import pytest
import safetensors.torch
import torch

import attar
from attar.errors import AttarError, FormatError, OptionError
from attar.reader import folders
from attar.reader.folders import fingerprint_of, shipped_reader
from attar.reader.names import NamesReader
from attar.reader.reader import Reader

TEXT, QUESTION = "Then Ann met Bob.", "Who left?"


@pytest.fixture
def folder(reader, tmp_path):
    reader.save(tmp_path / "reader")
    return tmp_path / "reader"


def test_a_saved_reader_loads_with_equal_memories_and_answers(reader, folder):
    loaded = Reader.load(folder)
    assert loaded.fingerprint == reader.fingerprint
    assert loaded.read(TEXT) == reader.read(TEXT)
    assert loaded.answer(reader.read(TEXT), QUESTION) == reader.answer(reader.read(TEXT), QUESTION)


def test_the_folder_has_three_files_and_nothing_else(folder):
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.json",
        "tokenizer.json",
        "weights.safetensors",
    ]


def test_the_about_information_is_saved(reader, tmp_path):
    described = NamesReader(reader.network, reader.vocabulary, about={"sources": ["novels"]})
    described.save(tmp_path)
    assert Reader.load(tmp_path).about == {"sources": ["novels"]}


def test_float16_saves_space_and_changes_the_fingerprint(reader, folder, tmp_path):
    fingerprint = reader.save(tmp_path / "half", precision="float16")
    loaded = Reader.load(tmp_path / "half")
    assert fingerprint == loaded.fingerprint != reader.fingerprint
    assert all(each.dtype == torch.float32 for each in loaded.network.parameters())
    sizes = [(path / "weights.safetensors").stat().st_size for path in (tmp_path / "half", folder)]
    assert sizes[0] < 0.75 * sizes[1]


def test_an_unknown_precision_is_refused(reader, tmp_path):
    with pytest.raises(OptionError, match="float32 or float16"):
        reader.save(tmp_path, precision="float8")


def test_the_fingerprint_depends_on_weights_words_and_options(make_reader, vocabulary):
    one, same, other = make_reader(), make_reader(), make_reader(scale="mean")
    assert one.fingerprint == same.fingerprint != other.fingerprint
    other_words = replace(vocabulary, words=("galley", *vocabulary.words[1:]))
    assert NamesReader(one.network, other_words).fingerprint != same.fingerprint
    with torch.no_grad():
        one.network.embedding.weight[5, 0] += 1
    assert NamesReader(one.network, vocabulary).fingerprint != same.fingerprint


def test_a_changed_weight_is_detected(folder):
    file = folder / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(FormatError, match="got other files; copy the whole folder again"):
        Reader.load(folder)


def test_a_changed_vocabulary_is_detected(folder):
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"valley"', '"galley"'))
    with pytest.raises(FormatError, match="got other files"):
        Reader.load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "weights.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FormatError, match=f"{name}: expected a reader's file"):
        Reader.load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "weights.safetensors"])
def test_a_truncated_file_is_named(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:50])
    with pytest.raises(FormatError, match=name):
        Reader.load(folder)


@pytest.mark.parametrize("text", ["[]", "null", '"reader"', "{}"])
def test_a_file_that_is_not_a_config_is_named(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(FormatError, match=r"config\.json: expected a reader's config"):
        Reader.load(folder)


def test_a_newer_format_asks_for_a_newer_attar(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"format": 99}))
    with pytest.raises(FormatError, match="got 99; install a newer attar"):
        Reader.load(folder)


def change_config(folder, **network):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"network": config["network"] | network}))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"words": 10**12}, r"Expected `int` <= 2147483648 - at `\$.words`"),
        ({"words": -1}, "Expected `int` >= 0"),
        ({"words": "150"}, "Expected `int`, got `str`"),
        ({"words": None}, "Expected `int`, got `null`"),
        ({"words": 193.5}, "Expected `int`, got `float`"),
        ({"entities": 500}, "expected names among the"),
        ({"size": 2**40}, "hidden_size: expected 1048576 or less"),
        ({"size": 0}, "hidden_size: expected 1 or more"),
        ({"size": True}, "Expected `int`, got `bool`"),
        ({"embedding": [5]}, "Expected `int`, got `array`"),
        ({"dropout": "0"}, "Expected `float`, got `str`"),
        ({"dropout": 1.5}, "dropout: expected a share"),
        ({"scale": "cube"}, "Invalid enum value 'cube'"),
        ({"asked": 1}, "Expected `bool`, got `int`"),
        ({"mechanism": 7}, "Expected `str`, got `int`"),
        ({"gates": 7}, "network option: expected one of"),
    ],
)
def test_a_network_option_of_another_type_or_range_is_named(folder, network, message):
    change_config(folder, **network)
    with pytest.raises(FormatError, match=message) as refused:
        Reader.load(folder)
    assert str(refused.value).startswith(f"{folder}/config.json: expected a reader's config")


def test_claimed_sizes_are_compared_with_the_weights_before_memory_is_allocated(folder):
    """A network of a petabyte, as a config of a few bytes can claim it."""
    words = json.loads((folder / "config.json").read_text())["network"]["words"]
    change_config(folder, size=2**20, embedding=2**20)
    with pytest.raises(FormatError, match=r"'document_encoder.*': expected \[\d+.* in F32 or F16, got \["):
        Reader.load(folder)
    change_config(folder, words=2**31)
    with pytest.raises(FormatError, match=rf"tokenizer.json: expected 2147483648 tokens, .* got {words}"):
        Reader.load(folder)


def test_a_vocabulary_that_claims_more_names_than_it_has_tokens_is_refused_at_once(folder):
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"entities":40', f'"entities":{10**15}'))
    with pytest.raises(FormatError, match=r"tokenizer.json: .*1000000000000000 names among"):
        Reader.load(folder)


@pytest.mark.parametrize("claimed", [10**4, 2**40, 2**63])
def test_a_header_longer_than_the_file_is_refused(folder, claimed):
    file = folder / "weights.safetensors"
    file.write_bytes(claimed.to_bytes(8, "little") + file.read_bytes()[8:])
    with pytest.raises(FormatError, match=r"weights\.safetensors: expected this reader's weights"):
        Reader.load(folder)


def save_weights(folder, weights):
    """Write other weights, with the fingerprint that fits them: a forged folder, not a damaged one."""
    (folder / "weights.safetensors").write_bytes(safetensors.torch.save(weights))
    config = json.loads((folder / "config.json").read_text())
    digest = fingerprint_of(config["network"], (folder / "tokenizer.json").read_bytes(), weights)
    (folder / "config.json").write_text(json.dumps(config | {"fingerprint": digest}))


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda weights, name: weights.pop(name), "got none"),
        (lambda weights, name: weights.update({name: weights[name].long()}), "got .* in I64"),
        (lambda weights, name: weights.update({name: weights[name][:1].clone()}), r"got \[1"),
        (lambda weights, name: weights.update(other=weights[name].clone()), "'other': expected no such"),
        (lambda weights, name: weights[name].fill_(torch.nan), "expected finite weights"),
        (lambda weights, name: weights[name].fill_(torch.inf), "expected finite weights"),
    ],
    ids=["lacking", "integers", "cut", "one too many", "NaN", "infinite"],
)
def test_forged_weights_are_refused(folder, forge, message):
    weights = safetensors.torch.load((folder / "weights.safetensors").read_bytes())
    forge(weights, "embedding.weight")
    save_weights(folder, weights)
    with pytest.raises(FormatError, match=message):
        Reader.load(folder)


def test_a_pipe_in_place_of_a_file_is_refused(folder):
    (folder / "weights.safetensors").unlink()
    os.mkfifo(folder / "weights.safetensors")
    with pytest.raises(FormatError, match="got no regular file"):
        Reader.load(folder)


def test_a_config_nested_too_deeply_is_refused(folder):
    (folder / "config.json").write_text('{"format":' + "[" * 200_000)
    with pytest.raises(FormatError, match=r"config\.json: expected a reader's config"):
        Reader.load(folder)


def test_a_folder_that_cannot_be_written_is_named(reader, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AttarError, match="file"):
        reader.save(tmp_path / "file")


def test_loading_does_not_change_the_random_state(folder):
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    Reader.load(folder)
    assert torch.rand(1) == expected


def test_without_a_path_the_default_reader_is_loaded(reader, folder, monkeypatch):
    folder.rename(folder.parent / "answers")
    monkeypatch.setattr(folders, "SHIPPED", folder.parent)
    assert attar.Reader.load().fingerprint == reader.fingerprint
    assert attar.Reader.load("answers").fingerprint == reader.fingerprint


def test_a_missing_default_reader_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "SHIPPED", tmp_path)
    with pytest.raises(AttarError, match=r"answers/config\.json: expected a reader's file.*; check the path"):
        attar.Reader.load()


def test_a_shipped_reader_is_found_by_its_fingerprint():
    assert shipped_reader(attar.Reader.load("names").fingerprint) == "names"
    assert shipped_reader("0" * 64) is None


def test_a_folder_of_the_same_name_is_preferred_to_a_shipped_reader(reader, folder, monkeypatch):
    folder.rename(folder.parent / "names")
    monkeypatch.chdir(folder.parent)
    assert Reader.load("names").fingerprint == reader.fingerprint
