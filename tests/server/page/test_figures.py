"""Functions of the page's scripts, run in the browser: formatting numbers, and quantiles of a histogram."""

import pytest


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
        ("rate", 0, "0"),
        ("rate", 12.34, "12.3"),
        ("rate", 1_234.5, "1,235"),
        ("percent", 0.624, "62.4 %"),
        ("percent", 0.0001, "< 0.1 %"),
        ("percent", 0, "0.0 %"),
        ("wholePercent", 0.624, "62 %"),
        ("wholePercent", 0.996, "> 99 %"),
        ("wholePercent", 0.001, "< 1 %"),
        ("likelihood", 0.8, "Very likely"),
        ("likelihood", 0.5, "Likely"),
        ("likelihood", 0.25, "Possible"),
        ("likelihood", 0.24, "Unsure"),
    ]
    assert [script("figures", name, value) for name, value, _ in figures] == [said for *_, said in figures]


def test_an_age_has_one_unit(script):
    now = 1_800_000_000_000
    ages = {30: "just now", 200: "3 min ago", 7_200: "2 h ago", 90_000: "1 d ago", 1e8: "3 years ago"}
    assert [script("figures", "age", now - past * 1_000, now) for past in ages] == list(ages.values())


def test_samples_are_parsed_with_their_labels(script):
    text = '# HELP a b\na{x="1",y="say \\"no\\""} 2\nb 3e2\n\n'
    told = [
        {"name": "a", "labels": {"x": "1", "y": 'say \\"no\\"'}, "value": 2},
        {"name": "b", "labels": {}, "value": 300},
    ]
    assert script("metrics", "parse", text) == told


def test_a_quantile_is_of_the_observations_between_two_readings(script):
    before, after = [[0.1, 5], [0.2, 5], [0.4, 5]], [[0.1, 5], [0.2, 15], [0.4, 15]]
    assert script("metrics", "quantile", before, after, 0.5) == pytest.approx(0.15)
    assert script("metrics", "quantile", [], after, 0.25) == pytest.approx(0.075)


def test_without_observations_there_is_no_quantile(script):
    assert script("metrics", "quantile", [[0.1, 5]], [[0.1, 5]], 0.5) is None
    assert script("metrics", "quantile", [], [], 0.5) is None
