"""The OpenAPI document, as a client reads it."""

import pytest


@pytest.fixture
def document(anonymous):
    return anonymous.get("/v1/openapi.json").json()
