"""The document as a server sends it, for what makes clients of it; and the client for TypeScript, compiled."""

import shutil
from pathlib import Path

import pytest
import requests

from chains.contracts.node_packages import run_script
from payments.api.examples import REQUEST
from tests.documents.pages import blocks_of, pages
from tests.generated_clients.programs import CLIENT, run
from tests.support.fake_chain import PATIENCE_S
from tests.support.javascript import install_or_skip


@pytest.fixture(scope="session")
def served(servers, tmp_path_factory) -> Path:
    """The document, in a file."""
    file: Path = tmp_path_factory.mktemp("document") / "openapi.json"
    file.write_bytes(requests.get(f"{servers.urls[0]}/v1/openapi.json", timeout=PATIENCE_S).content)
    return file


@pytest.fixture(scope="session")
def tools():
    """The folder of the npm packages."""
    return install_or_skip(CLIENT) / "node_modules"


@pytest.fixture
def attempt(compiled):
    """Call the client, which is given these answers in turn; return its result or error, and what it sent."""

    def call(method, given, **options):
        question = {"method": method, "answers": given, "request": REQUEST, **options}
        return run_script(Path(__file__).parent / "attempts.mjs", compiled / "dist/index.js", question=question)

    return call


@pytest.fixture(scope="session")
def compiled(tools, tmp_path_factory):
    """A copy of the client, compiled, with its example and what the pages show."""
    folder = tmp_path_factory.mktemp("typescript") / CLIENT.name
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(tools)
    written = [block for page in pages() for block in blocks_of(page) if '"allowance-client"' in block.text]
    for number, block in enumerate(written):
        (folder / f"examples/page{number}.ts").write_text(block.text)
    for project in (".", "examples"):
        run([tools / ".bin/tsc", "--project", project], cwd=folder)
    return folder
