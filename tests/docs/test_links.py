"""Links between the pages, to pictures and to files lead somewhere, and no page loads anything from other hosts."""

import importlib.util
import re


def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!\w+:|#)([^)#]+)[^)]*\)", page.text)
    assert [target for target in targets if not (page.path.parent / target).exists()] == []


def test_files_that_are_named_exist(page, root):
    folders = "attar|benchmarks|deploy|docs|examples|tests"
    named = [span for span in page.spans if re.fullmatch(rf"({folders})/[\w/-]+(\.\w+)?", span)]
    assert [span for span in named if not (root / span).exists()] == []


def test_every_example_is_on_the_page_of_examples(root):
    page = (root / "docs/examples.md").read_text(encoding="utf-8")
    examples = [file for file in (root / "examples").glob("*.py") if "__main__" in file.read_text()]
    assert [example.name for example in examples if f"`{example.name}`" not in page] == []


def test_a_page_of_the_site_may_not_load_from_other_hosts(root):
    spec = importlib.util.spec_from_file_location("check_pages", root / "docs" / "check_pages.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    assert hook.fetched_from_elsewhere('<script src="https://elsewhere.example/a.js"></script>')
    assert hook.fetched_from_elsewhere('<link rel="stylesheet" href="//elsewhere.example/a.css">')
    assert hook.fetched_from_elsewhere('<a href="https://elsewhere.example/">a link</a>') == []
