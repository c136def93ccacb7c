"""A certificate authority that attempts trust for the length of a test, and an owner who is told over TLS."""

from contextlib import contextmanager

import pytest

from tests.services.webhooks.authorities import Authority
from tests.services.webhooks.couriers import forget_other_tests
from tests.services.webhooks.owners import HOST, Owner
from tests.services.webhooks.receivers import Receiver


@pytest.fixture(scope="session")
def one_authority():
    """Make keys once: that takes longer than a test."""
    return Authority()


@pytest.fixture
def authority(one_authority, tmp_path, monkeypatch):
    """Give the authority that attempts of this test trust, and no other."""
    monkeypatch.setenv("SSL_CERT_FILE", one_authority.write_trust(tmp_path))
    return one_authority


@pytest.fixture
def open_owner(db, authority):
    """Give what opens a receiver, with behaviours, for an agent whose payments above 5 are held."""
    forget_other_tests()

    @contextmanager
    def make(*behaviours):
        with Receiver(*behaviours, tls=authority.server(HOST)) as receiver:
            yield Owner(receiver)

    return make
