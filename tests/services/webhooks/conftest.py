"""A certificate authority that attempts trust for the length of a test."""

import pytest

from tests.services.webhooks.authorities import Authority


@pytest.fixture(scope="session")
def one_authority():
    """Make keys once: that takes longer than a test."""
    return Authority()


@pytest.fixture
def authority(one_authority, tmp_path, monkeypatch):
    """Give the authority that attempts of this test trust, and no other."""
    monkeypatch.setenv("SSL_CERT_FILE", one_authority.write_trust(tmp_path))
    return one_authority
