"""`GET /v1/docs/<page>` and `GET /llms.txt`: what docs/integrate has, and nothing else."""

import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from foundation.api.doc_pages import as_html, read_pages
from tests.documents.pages import anchors_of, links_of
from tests.support.answers import error_of

MD = ".md"
FOLDER = settings.BASE_DIR / "docs/integrate"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob(f"*{MD}"))
NAMES = [name.removesuffix(MD) for name in FILES]


class Links(HTMLParser):
    """What a page loads and leads to, its anchors, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.leads_to: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.tags: set[str] = set()
        self.inline: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        told = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.anchors |= {told["id"]} if "id" in told else set()
        self.leads_to += [told["href"]] if tag == "a" else []
        self.loads += [told[name] for name in ("src", "href") if name in told and tag in ("script", "link", "img")]
        self.inline += [name for name in told if name == "style" or name.startswith("on")]


def html_of(client, name):
    response = client.get(f"/v1/docs/{name}", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (response.status_code, response["Content-Type"]) == (200, "text/html; charset=utf-8")
    return response


def test_there_is_a_page_for_each_file_and_no_other():
    assert sorted(read_pages()) == sorted(NAMES)
    assert {"agents", "errors", "retries", "errors/budget_exceeded"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_markdown_to_programs_and_html_to_browsers(anonymous, name):
    plain = anonymous.get(f"/v1/docs/{name}")
    shown = html_of(anonymous, name)

    assert (plain.status_code, plain["Content-Type"]) == (200, "text/markdown; charset=utf-8")
    heading = (FOLDER / f"{name}{MD}").read_text().partition("\n")[0]
    assert plain.content.decode().partition("\n")[0] == heading
    assert f"<title>{heading.removeprefix('# ').replace('`', '')} | Allowance</title>" in shown.content.decode()
    assert "Accept" in plain["Vary"].split(", ")
    assert "Accept" in shown["Vary"].split(", ")


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        ("text/html", True), ("TEXT/HTML;level=1", True), ("*/*;q=0.1, text/html;q=0.2", True),
        ("text/html, text/markdown;q=0.5", True), ("", False), ("*/*", False), ("text/*", False),
        ("text/html;q=0", False), ("text/markdown, text/html, */*", False), ("application/json", False),
        ("text/htmlx", False), ("text/html;q=nonsense", False),
    ],
)  # fmt: skip
def test_who_accepts_html_rather_than_markdown_gets_it(anonymous, accept, is_html):
    response = anonymous.get("/v1/docs/errors", accept=accept)

    assert response["Content-Type"] == f"text/{'html' if is_html else 'markdown'}; charset=utf-8"


def test_with_md_after_its_name_a_page_is_always_markdown(anonymous):
    response = anonymous.get(f"/v1/docs/errors/budget_exceeded{MD}", accept="text/html")

    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    assert response.content == anonymous.get("/v1/docs/errors/budget_exceeded").content


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_only_files_of_ours_and_has_no_code_or_style_in_it(anonymous, name):
    response = html_of(anonymous, name)
    page = Links(response.content.decode())

    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.loads
    assert [one for one in page.loads if not one.startswith(("/static/", "/v1/docs/"))] == []
    assert [one for one in page.loads if one.startswith("/static/") and not finders.find(one[8:])] == []
    assert page.inline == []
    assert page.tags.isdisjoint({"style", "iframe", "form", "object"})
    assert re.findall(r"<script(?![^>]* src=)", response.content.decode()) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_page_leads_to_something_served(anonymous, name):
    markdown = anonymous.get(f"/v1/docs/{name}").content.decode()
    page = Links(html_of(anonymous, name).content.decode())

    inside = [one for one in page.leads_to if not re.match(r"https?:", one)]
    assert [one for one in inside if not one.startswith(("/", "#"))] == []
    for link in sorted(set(inside)):
        path, _, anchor = link.partition("#")
        target = anonymous.get(path, accept="text/html") if path else html_of(anonymous, name)
        assert target.status_code == 200, link
        assert not anchor or anchor in Links(target.content.decode()).anchors, link
    assert re.findall(r"\]\((?!/|#|https?:)[^)]*\)", re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)) == []


@pytest.mark.parametrize("name", NAMES)
def test_headings_have_the_anchors_that_the_repository_shows(anonymous, name):
    assert anchors_of(f"docs/integrate/{name}{MD}") <= Links(html_of(anonymous, name).content.decode()).anchors


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "errors/nothing", "Errors", "errors.html", f"errors{MD}{MD}", MD, "..", "../agents", "../contract",
        "../../README", "errors/../agents", "./agents", "errors//budget_exceeded", "/etc/passwd", "//etc/passwd",
        "agents/x", "errors/budget_exceeded/x", "agents\n", "agents\x00", f"agents\x00{MD}", "llms.txt", "llms",
        "errors\\budget_exceeded", "C:\\x", "a" * 9000, "agents.", "agents;x", "__init__", "\u00e4gents", "agents ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_any_other_address_is_404_in_the_envelope(anonymous, path, accept):
    for target in (quote(path), quote(path, safe="")):
        error_of(anonymous.get(f"/v1/docs/{target}", accept=accept), 404, "not_found")


@pytest.mark.parametrize(
    "target", ["%2e%2e%2fcontract", "..%2f..%2fREADME", "%252e%252e%252fcontract", "errors%252f.."]
)
def test_an_encoded_way_out_of_the_folder_is_404(anonymous, target):
    error_of(anonymous.get(f"/v1/docs/{target}"), 404, "not_found")


def test_an_address_may_end_with_a_slash(anonymous):
    for name in ("errors", "errors/budget_exceeded"):
        bare, slashed = (anonymous.get(f"/v1/docs/{name}{end}") for end in ("", "/"))
        assert (bare.status_code, bare.content) == (slashed.status_code, slashed.content)


def test_links_of_the_file_system_and_odd_names_are_no_pages(tmp_path):
    folder, elsewhere = tmp_path / "pages", tmp_path / "elsewhere"
    (folder / "codes").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / f"secret{MD}").write_text("# Secret\n")
    for name in ("good", "codes/good", "Bad", "b ad", "b.ad"):
        (folder / f"{name}{MD}").write_text("# A page\n\nText.\n")
    (folder / "good.txt").write_text("# A text\n")
    (folder / f"link{MD}").symlink_to(elsewhere / f"secret{MD}")
    (folder / "linked").symlink_to(elsewhere)

    assert list(read_pages(folder)) == ["good", "codes/good"]
    assert read_pages(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    ("written", "served"),
    [
        (f"[a](../one{MD})", "[a](/v1/docs/one)"),
        (f"[a](../one{MD}#x)", "[a](/v1/docs/one#x)"),
        (f"[a](three{MD})", "[a](/v1/docs/codes/three)"),
        (f"[a `b`](../../out{MD})", "a `b`"),
        (f"[a](../../codes/three{MD})", "a"),
        ("[a](../one.txt)", "a"),
        ("[a](https://example.com/)", "[a](https://example.com/)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](/v1)", "[a](/v1)"),
        (f"```\n[a](../one{MD})\n```", f"```\n[a](../one{MD})\n```"),
    ],
)
def test_links_become_addresses_and_those_out_of_the_folder_words(tmp_path, written, served):
    (tmp_path / "codes").mkdir()
    for name, text in (("one", ""), ("codes/three", ""), ("codes/two", written)):
        (tmp_path / f"{name}{MD}").write_text(f"# A page\n\n{text}\n")

    assert read_pages(tmp_path)["codes/two"].markdown == f"# A page\n\n{served}\n"


def test_html_within_a_page_is_shown_as_text():
    html = as_html('# T\n\n<script>alert(1)</script> <b onclick="x">y</b> [z](javascript:alert)\n\n<div>\n')

    assert Links(html).tags == {"h1", "p"}
    assert "&lt;script&gt;" in html


def test_pages_are_read_once(anonymous, monkeypatch):
    first = anonymous.get("/v1/docs/errors").content
    monkeypatch.setattr("pathlib.Path.read_text", None)

    assert anonymous.get("/v1/docs/errors").content == first


# --- /llms.txt --------------------------------------------------------------------------------------------------------
def test_llms_txt_has_the_form_of_llmstxt_org(anonymous):
    response = anonymous.get("/llms.txt")
    lines = response.content.decode().splitlines()

    assert (response.status_code, response["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert (lines[0], lines[2][:2]) == ("# Allowance", "> ")
    assert [line for line in lines if line.startswith("# ")] == ["# Allowance"]
    assert "{" not in "".join(lines).replace('{"', "").replace("{id}", "")
    sections = "\n".join(lines).split("\n## ")[1:]
    for section in sections:
        for line in section.splitlines()[1:]:
            assert not line or re.fullmatch(r"- \[[^\]]+\]\(/[^)]+\): \S.*\S", line), line


def test_llms_txt_names_every_guide_and_all_that_it_names_is_there(anonymous):
    text = anonymous.get("/llms.txt").content.decode()
    links = re.findall(r"\]\(([^)]+)\)", text)

    assert {f"/v1/docs/{name}" for name in NAMES if "/" not in name} <= set(links)
    assert {"/v1/openapi.json", "/v1/docs/agents", "/v1/docs/errors", "/v1/docs/retries"} <= set(links)
    assert [link for link in links if anonymous.get(link).status_code != 200] == []


def test_every_address_that_llms_txt_asks_for_is_documented(anonymous):
    text = anonymous.get("/llms.txt").content.decode()
    named = re.findall(r"`(GET|POST) (/v1/[^`]+)`", text)

    assert len(named) >= 5
    paths = {path for _, path in named}
    assert {"/v1/payments/evaluate", "/v1/payments/request", "/v1/payments/{id}"} <= paths


def test_the_repositorys_links_of_these_pages_are_relative():
    for name in FILES:
        assert [link for link in links_of(f"docs/integrate/{name}") if link.startswith("/")] == []
