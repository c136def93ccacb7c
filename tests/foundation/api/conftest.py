"""The OpenAPI document, as a client reads it, and requests as no client writes them."""

from typing import Any

import pytest

from tests.support.desk import Desk


@pytest.fixture
def document(anonymous):
    return anonymous.get("/v1/openapi.json").json()


@pytest.fixture
def desk(servers: Any) -> Desk:
    return Desk(servers.urls[0])
