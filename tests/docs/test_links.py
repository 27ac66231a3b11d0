"""Links between the pages, and to their pictures, lead somewhere: those outside the site too."""

import re


def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!\w+:|#)([^)#]+)[^)]*\)", page.text)
    assert [target for target in targets if not (page.path.parent / target).exists()] == []
