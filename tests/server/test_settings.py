"""What a server may be told, and what it refuses to be."""

from pathlib import Path

import pytest

from attar.errors import OptionError
from attar.server import Settings
from attar.server.settings import check_open, is_loopback, token_in


def test_a_token_is_not_shown():
    assert "hidden" not in repr(Settings(Path("x"), token="hidden"))


@pytest.mark.parametrize(
    "words",
    [
        {"max_body": 0},
        {"max_questions": -1},
        {"max_queue": 0},
        {"timeout": 0.0},
        {"timeout": float("nan")},
        {"log_format": "xml"},
        {"log_level": "loud"},
        {"token": ""},
        {"token": "ä"},
        {"token": "two\nlines"},
    ],
    ids=str,
)
def test_settings_that_cannot_be(words):
    with pytest.raises(OptionError):
        Settings(Path("x"), **words)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_token(host):
    assert is_loopback(host)
    check_open(host, None, no_token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_other_addresses_need_a_token_or_a_word(host):
    with pytest.raises(OptionError, match="--no-token"):
        check_open(host, None, no_token=False)
    check_open(host, "token", no_token=False)
    check_open(host, None, no_token=True)


def test_a_token_file_is_its_first_line(tmp_path):
    (tmp_path / "token").write_text("abc\nnot this\n")
    assert token_in(tmp_path / "token") == "abc"


@pytest.mark.parametrize("text", [None, "", "\nabc"])
def test_a_token_file_without_a_token(tmp_path, text):
    if text is not None:
        (tmp_path / "token").write_text(text)
    with pytest.raises(OptionError, match="--token-file"):
        token_in(tmp_path / "token")
