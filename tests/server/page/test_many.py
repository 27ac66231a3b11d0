"""The page with 10,000 documents on a real server: the picker finds any of them, and the list has all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from attar.library.library import Library
from benchmarks.server import serving
from tests.server.page.conftest import Server

pytestmark = pytest.mark.nightly

COUNT = 10_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, tiny_reader_folder: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("crowded") / "library"
    with Library(folder, tiny_reader_folder) as library:
        library.add_many(
            (f"year {number % 10}/report {number:05}", f"Report {number} is by Ann.")
            for number in range(COUNT)
        )
    with serving(folder, tiny_reader_folder) as running:
        yield Server(f"http://127.0.0.1:{running.port}", folder)


def test_the_picker_finds_any_document_by_a_part_of_its_name(crowded: Server, open_page: Any) -> None:
    page = open_page(crowded)
    offered = page.locator("#scope-names option")
    expect(offered.first).to_be_attached()
    for typed, names in (
        ("09999", ["year 9/report 09999"]),
        ("rePort 0777", [f"year {n}/report 0777{n}" for n in range(10)]),
    ):
        page.get_by_label("Where to look").fill(typed)
        expect(offered).to_have_count(len(names))
        assert offered.evaluate_all("all => all.map(({ value }) => value)") == names
