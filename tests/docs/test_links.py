"""Links between the pages, and to their pictures, lead somewhere: those outside the site too."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!\w+:|#)([^)#]+)[^)]*\)", page.text)
    assert [target for target in targets if not (page.path.parent / target).exists()] == []


def test_files_of_the_repository_that_are_named_are_there(page):
    named = [span for span in page.spans if re.fullmatch(r"(tests|benchmarks|examples)/[\w/]+(\.\w+)?", span)]
    assert [span for span in named if not (ROOT / span).exists()] == []
