"""The keys of this process. Using a key that the process was not given, or does not read, is an error."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from foundation.kernel.secrecy import Secret


def held_key(name: str) -> Secret:
    """Give the key that a variable holds.

    Raises:
        ImproperlyConfigured: it is not set, or this process does not read it: see `process_types.py`.
    """
    key = getattr(settings, name)
    if not key:
        raise ImproperlyConfigured(f"{name} is not set, or is none of the keys of this process.")
    return key if isinstance(key, Secret) else Secret(key)
