"""The settings of the plain version: the product's, with the middleware and the cache of an ordinary Django project."""

from allowance.settings import *  # noqa: F403 - what is not said here is the same
from allowance.settings import REDIS_URL

ROOT_URLCONF = "tests.benchmarks.plain.urls"
MIDDLEWARE = [
    "allowance.probes.answer_probes",
    # As `django-admin startproject` writes them.
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # django-allauth refuses to start without it, wherever its app is installed. It costs a payment some microseconds.
    "allauth.account.middleware.AccountMiddleware",
]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}
