"""Functions of the page's scripts, run in the browser: formatting numbers."""

import pytest

pytestmark = pytest.mark.nightly


@pytest.fixture
def script(page):
    """A function of one of the page's modules, called with values."""

    def call(module: str, function: str, *values: object) -> object:
        code = "async ([module, name, values]) => (await import(`/${module}.js`))[name](...values)"
        return page.evaluate(code, [module, function, list(values)])

    return call


def test_numbers_are_formatted_with_units(script):
    figures = [
        ("bytes", 812, "812 B"),
        ("bytes", 10_240, "10.2 KB"),
        ("bytes", 999_900, "1 MB"),
        ("seconds", 0, "0 s"),
        ("seconds", 3.1e-6, "3.1 µs"),
        ("seconds", 0.0042, "4.2 ms"),
        ("seconds", 1.25, "1.25 s"),
        ("wholePercent", 0.624, "62 %"),
        ("wholePercent", 0.996, "> 99 %"),
        ("wholePercent", 0.001, "< 1 %"),
    ]
    assert [script("figures", name, value) for name, value, _ in figures] == [said for *_, said in figures]


def test_an_age_has_one_unit(script):
    now = 1_800_000_000_000
    ages = {30: "just now", 200: "3 min ago", 7_200: "2 h ago", 90_000: "1 d ago", 1e8: "3 years ago"}
    assert [script("figures", "age", now - past * 1_000, now) for past in ages] == list(ages.values())
