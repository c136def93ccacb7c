"""The people of these tests sign in often: their passwords are hashed in no time."""

import pytest


@pytest.fixture(autouse=True)
def quick_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
