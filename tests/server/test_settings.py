"""Settings are validated, and a public address needs a token."""

from pathlib import Path

import pytest

from attar.errors import OptionError
from attar.server.settings import Settings, read_tokens, require_token


def test_a_token_is_not_in_the_repr():
    assert "hidden" not in repr(Settings(store=Path("x"), token="hidden"))


@pytest.mark.parametrize(
    "words",
    [
        *({"max_body": 0}, {"max_questions": -1}),
        *({"timeout": 0.0}, {"timeout": float("nan")}, {"log_format": "xml"}, {"log_level": "loud"}),
        *({"token": ""}, {"token": "ä"}, {"token": "two\nlines"}),
        *({"prefix": "attar"}, {"prefix": "/attar/"}, {"prefix": "/two words"}),
        *({"read_tokens": frozenset({"a"})}, {"token": "a", "read_tokens": frozenset({"a"})}),
        *({"cors": "example.org"}, {"cors": "https://a.example,"}, {"cors": "https://a.example/path"}),
        *({"forwarded_allow_ips": "proxy.example"}, {"forwarded_allow_ips": "127.0.0.1,"}),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(words):
    with pytest.raises(OptionError):
        Settings(store=Path("x"), **words)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    require_token(host, None, no_token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_public_addresses_need_a_token_or_no_token(host):
    with pytest.raises(OptionError, match="--no-token"):
        require_token(host, None, no_token=False)
    require_token(host, "token", no_token=False)
    require_token(host, None, no_token=True)


@pytest.mark.parametrize("text", [None, "", "\nabc"])
def test_a_file_without_a_token_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "token").write_text(text)
    with pytest.raises(OptionError, match="--token-file"):
        read_tokens("--token-file", tmp_path / "token")


def test_a_file_has_a_token_per_line(tmp_path):
    (tmp_path / "tokens").write_text("abc\n\n def \n")
    assert read_tokens("--read-token-file", tmp_path / "tokens") == ["abc", "def"]
