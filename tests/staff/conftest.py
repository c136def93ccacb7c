"""The people of the console. They sign in often: their passwords are hashed in no time."""

import pytest

from tests.foundation.console.conftest import auditor, finance, make_person, superuser

__all__ = ["auditor", "finance", "make_person", "superuser"]


@pytest.fixture(autouse=True)
def quick_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
