"""The document as a server sends it, for what makes clients of it."""

from pathlib import Path

import pytest
import requests

from tests.support.fake_chain import PATIENCE_S


@pytest.fixture(scope="session")
def served(servers, tmp_path_factory) -> Path:
    """The document, in a file."""
    file: Path = tmp_path_factory.mktemp("document") / "openapi.json"
    file.write_bytes(requests.get(f"{servers.urls[0]}/v1/openapi.json", timeout=PATIENCE_S).content)
    return file
