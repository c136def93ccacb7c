"""An installation in which nothing is wrong, as far as tests can make one; each test plants a fault in it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.db import connection

from foundation.environment.process_types import SERVERS
from staff.roles import ROLES
from tests.operators.doctor.between import Between
from tests.support.factories import new_name
from tests.support.heartbeats import hearts_that_beat
from tests.support.mail_server import MailServer
from tests.support.reconciliations import make_comparison
from workshop.localnet import postgres

# A role that owns what the superuser of the tests owns, and is none.
ROLE = "patient"


@pytest.fixture
def processes(settings: Any) -> Iterator[Any]:
    """One process of each type gives signs of life, and no task waits; gives the Redis that says so."""
    with hearts_that_beat() as redis:
        redis.delete(*SERVERS)
        yield redis


@pytest.fixture
def staff(db: None) -> list[User]:
    """Two people with all roles and an authenticator each, and nobody else."""
    User.objects.update(is_active=False)
    return [make_person() for _ in range(2)]


@pytest.fixture
def role(db: None) -> str:
    """Be no superuser until the test ends."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {ROLE} LOGIN; GRANT {postgres.USER} TO {ROLE}; SET LOCAL ROLE {ROLE}")
    return ROLE


@pytest.fixture
def compared(db: None, settings: Any) -> None:
    """Each escrow was compared with the ledger just now."""
    for caip2 in settings.CHAINS:
        make_comparison(caip2)


@pytest.fixture
def on_time(settings: Any) -> Iterator[None]:
    """The nodes date their newest blocks now."""
    nodes = {caip2: Between(served.rpc_urls[0]) for caip2, served in settings.CHAINS.items()}
    settings.CHAINS = {caip2: replace(settings.CHAINS[caip2], rpc_urls=(node.url,)) for caip2, node in nodes.items()}
    yield
    for node in nodes.values():
        node.close()


@pytest.fixture
def protected(settings: Any) -> None:
    """Be configured as for production."""
    settings.EMBEDDED = False
    for name in (
        "HTTPS", "FOUR_EYES", "TOTP_REQUIRED", "METRICS_TOKEN", "SECURE_SSL_REDIRECT", "SESSION_COOKIE_SECURE",
        "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_HSTS_PRELOAD",
    ):  # fmt: skip
        setattr(settings, name, True)


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    """A mail server that listens, and notices that have links."""
    with MailServer() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.CONSOLE_URL = "https://pay.example.com"
        yield server


def make_person(*, has_authenticator: bool = True) -> User:
    """Make an account with every role."""
    user = User.objects.create(username=new_name("person"), email="a@example.com", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=[role.name for role in ROLES]))
    if has_authenticator:
        Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data={"secret": "x"})
    return user
