"""The runbooks, docs/operate and docs/console, for staff to read in the console. What is asked for is no path."""

import re

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import mark_safe

from foundation.api.doc_pages import as_html, read_pages
from foundation.console.views import show_page, staff_page

_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")


def runbook_address(name: str) -> str:
    """Name where the console shows a page of docs, such as `operate/keys`."""
    return reverse("backoffice:runbook", args=[name])


@staff_page()
def runbook(request: HttpRequest, name: str) -> HttpResponse:
    """Show one page; links to others of them lead there."""
    page = read_pages(settings.BASE_DIR / "docs", "/console/runbooks").get(name)
    if page is None or not name.startswith(("operate/", "console/")):
        raise Http404
    _, _, text = page.markdown.partition("\n")  # the first line is the title
    body = as_html(_IMAGE.sub("", text))
    content = mark_safe(body)  # noqa: S308 - the release's own text, rendered without any HTML of its own
    return show_page(request, "console/runbook.html", title=page.title, content=content)
