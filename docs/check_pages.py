"""What a page of the site may not do: load anything from elsewhere. It would not work offline, and tells others.

A hook of mkdocs (`mkdocs.yml`): a page that breaks the rule ends the build.
"""

from html.parser import HTMLParser
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

# What a browser fetches by itself, by element; an <a> is followed only by a person.
FETCHED = {"src", "srcset", "data", "poster"}
FETCHING_LINKS = {"stylesheet", "preload", "prefetch", "preconnect", "icon", "manifest", "modulepreload"}


class Fetches(HTMLParser):
    """Collects the addresses elsewhere that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = dict(attrs)
        wanted = [value for name, value in attrs if name in FETCHED]
        if tag == "link" and FETCHING_LINKS & set((given.get("rel") or "").split()):
            wanted.append(given.get("href"))
        self.found += [value for value in wanted if value and value.startswith(("http:", "https:", "//"))]


def fetched_from_elsewhere(html: str) -> list[str]:
    """The addresses elsewhere that a page makes a browser fetch."""
    page = Fetches()
    page.feed(html)
    # Material loads its diagrams' program from a CDN when it meets one.
    return page.found + (["a mermaid diagram's program"] if 'class="mermaid"' in html else [])


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Refuse a page that fetches from elsewhere."""
    found = fetched_from_elsewhere(output)
    if found:
        raise PluginError(f"{page.file.src_uri}: loads {', '.join(sorted(set(found)))}")
    return output
