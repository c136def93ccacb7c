"""The one host that an API key is sent to."""

import ipaddress

import httpx


def read_base_url(url: str, *, allow_http: bool) -> httpx.URL:
    """Check where the API is.

    Raises:
        ValueError: no http or https URL, one with user, query or fragment, or plain http to another machine.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError("The base URL is no URL.") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("The base URL begins with https://, or with http:// on this machine.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("The base URL has neither user, query nor fragment.")
    if parsed.scheme == "http" and not (allow_http or is_loopback(parsed.host)):
        raise ValueError("Over http:// everybody on the way reads the API key: use https://, or say allow_http=True.")
    return parsed


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_api_key(api_key: str) -> str:
    """Check that a key can stand in a header. Raises `ValueError`, which does not show it."""
    if not (api_key and api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ValueError("The API key is empty, or has spaces or other characters that no key has.")
    return api_key
