"""A reader is a folder of three files: whole, its own, and the same on every machine."""

import json

import pytest
import torch

import attar
from attar.errors import AttarError, FormatError, OptionError
from attar.reader import Reader
from attar.reader import reader as reader_file

TEXT, QUESTION = "Then Ann met Bob.", "Who left?"


@pytest.fixture
def folder(reader, tmp_path):
    reader.save(tmp_path / "reader")
    return tmp_path / "reader"


def test_what_was_saved_reads_and_answers_the_same(reader, folder):
    loaded = Reader.load(folder)
    assert loaded.fingerprint == reader.fingerprint
    assert loaded.read(TEXT) == reader.read(TEXT)
    assert loaded.answer(reader.read(TEXT), QUESTION) == reader.answer(reader.read(TEXT), QUESTION)


def test_three_files_and_nothing_else(folder):
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.json",
        "tokenizer.json",
        "weights.safetensors",
    ]


def test_what_is_told_about_it_comes_back(reader, tmp_path):
    told = Reader(reader.network, reader.vocabulary, about={"sources": ["novels"]})
    told.save(tmp_path)
    assert Reader.load(tmp_path).about == {"sources": ["novels"]}


def test_half_the_bytes_are_another_reader(reader, folder, tmp_path):
    fingerprint = reader.save(tmp_path / "half", precision="float16")
    loaded = Reader.load(tmp_path / "half")
    assert fingerprint == loaded.fingerprint != reader.fingerprint
    assert all(each.dtype == torch.float32 for each in loaded.network.parameters())
    sizes = [(path / "weights.safetensors").stat().st_size for path in (tmp_path / "half", folder)]
    assert sizes[0] < 0.75 * sizes[1]


def test_a_precision_that_is_none_is_refused(reader, tmp_path):
    with pytest.raises(OptionError, match="float32 or float16"):
        reader.save(tmp_path, precision="float8")


def test_the_fingerprint_follows_weights_words_and_options(make_reader, vocabulary):
    one, same, other = make_reader(), make_reader(), make_reader(scale="mean")
    assert one.fingerprint == same.fingerprint != other.fingerprint
    with torch.no_grad():
        one.network.embedding.weight[5, 0] += 1
    assert Reader(one.network, vocabulary).fingerprint != same.fingerprint


def test_a_weight_that_was_changed_is_noticed(folder):
    file = folder / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(FormatError, match="got other files; copy the whole folder again"):
        Reader.load(folder)


def test_another_readers_words_are_noticed(folder):
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
def test_a_cut_file_is_named(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:50])
    with pytest.raises(FormatError, match=name):
        Reader.load(folder)


@pytest.mark.parametrize("text", ["[]", "null", '"reader"', "{}"])
def test_a_config_that_is_none_is_named(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(FormatError, match=r"config\.json: expected a reader's config"):
        Reader.load(folder)


def test_a_later_format_asks_for_a_later_attar(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"format": 99}))
    with pytest.raises(FormatError, match="got 99; install a newer attar"):
        Reader.load(folder)


def test_a_place_that_cannot_be_written_is_named(reader, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AttarError, match="file"):
        reader.save(tmp_path / "file")


def test_loading_leaves_the_seed_alone(folder):
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    Reader.load(folder)
    assert torch.rand(1) == wanted


def test_without_a_path_the_packages_own_reader_is_loaded(reader, folder, monkeypatch):
    monkeypatch.setattr(reader_file, "DEFAULT", folder)
    assert attar.Reader.load().fingerprint == reader.fingerprint


def test_a_package_without_a_reader_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(reader_file, "DEFAULT", tmp_path / "none")
    with pytest.raises(AttarError, match="give the path of a reader's folder"):
        attar.Reader.load()
