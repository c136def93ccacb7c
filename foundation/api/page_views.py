"""The pages for who integrates: `GET /v1/docs/<page>`, as HTML or Markdown, and `GET /llms.txt`. No key is needed."""

from collections.abc import Mapping
from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

from foundation.api.client_packages import ADDRESS, TARBALL, WHEEL, make_packages
from foundation.api.doc_pages import Page, as_html, read_pages
from foundation.api.errors import error_response
from foundation.api.public_documents import PublicDocument, public_document, weights_of
from foundation.kernel.errors import NotFound

_HTML, _MARKDOWN, _TEXT = (f"text/{kind}; charset=utf-8" for kind in ("html", "markdown", "plain"))
# Stricter than the console's: a page has no forms.
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@public_document
def show_page(request: HttpRequest, page: str) -> HttpResponse:
    """Show a page as HTML to what accepts `text/html`, else as Markdown; with `.md` after its name, always as that."""
    found = read_pages().get(page.removesuffix(".md"))
    if found is None:
        return error_response(NotFound())
    if page.endswith(".md"):
        return _markdown_of(found).answer(request)
    if prefers_html(request.headers.get("Accept", "")):
        response = _html_of(found).answer(request)
        response["Content-Security-Policy"] = _CONTENT_POLICY
    else:
        response = _markdown_of(found).answer(request)
    patch_vary_headers(response, ["Accept"])
    return response


@public_document
def hand_out_client(request: HttpRequest, file: str) -> HttpResponse:
    """Hand out a client of this release: the wheel for Python, the tarball for TypeScript."""
    document = _packages().get(file)
    return error_response(NotFound()) if document is None else document.answer(request)


@public_document
def llms_txt(request: HttpRequest) -> HttpResponse:
    """Tell a language model what this is, how it pays, and where to read on: https://llmstxt.org."""
    return _llms_document().answer(request)


def prefers_html(accept: str) -> bool:
    """Tell whether a client accepts `text/html`, by name, and would not rather have Markdown."""
    weights = weights_of(accept)
    return weights.get("text/html", 0.0) > weights.get("text/markdown", 0.0)


@cache
def _packages() -> Mapping[str, PublicDocument]:
    made = make_packages(settings.BASE_DIR / "clients")
    return {name: PublicDocument.of("application/octet-stream", content) for name, content in made.items()}


@cache
def _markdown_of(page: Page) -> PublicDocument:
    return PublicDocument.of(_MARKDOWN, page.markdown.encode())


@cache
def _html_of(page: Page) -> PublicDocument:
    pages = read_pages().values()
    context = {
        "page": page,
        "content": as_html(page.markdown),
        "guides": [one for one in pages if "/" not in one.name],
        "codes": [one for one in pages if one.name.startswith("errors/")],
    }
    return PublicDocument.of(_HTML, render_to_string("docs/page.html", context).encode())


@cache
def _llms_document() -> PublicDocument:
    """Put the list of pages into docs/integrate/llms.txt: there is no page that it does not name."""
    text = (settings.BASE_DIR / "docs/integrate/llms.txt").read_text("utf-8")
    guides = [page for page in read_pages().values() if "/" not in page.name]
    listed = "\n".join(f"- [{page.title}]({page.address}): {page.summary}" for page in guides)
    for name, value in (("guides", listed), ("wheel", f"{ADDRESS}/{WHEEL}"), ("tarball", f"{ADDRESS}/{TARBALL}")):
        text = text.replace(f"{{{name}}}", value)
    return PublicDocument.of(_TEXT, text.encode())
