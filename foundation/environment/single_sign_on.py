"""Read the provider of OpenID Connect that staff may sign in with, if there is one."""

from typing import Any
from urllib.parse import urlsplit

from foundation.environment.configuration import Configuration

PROVIDER_ID = "sso"
_MISSING = "is not set: single sign-on needs OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET."


def read_issuer(configuration: Configuration, *, is_embedded: bool) -> str:
    """Read the provider's address; "" if there is none. Only a developer's machine may speak to it in the clear."""
    issuer: str = configuration.read("OIDC_ISSUER") or ""
    if issuer and not _is_issuer(issuer, ("https", "http") if is_embedded else ("https",)):
        configuration.problems.append("OIDC_ISSUER is not an https:// address without a query.")
    return issuer


def read_provider(configuration: Configuration, issuer: str) -> dict[str, Any]:
    """Read what this installation is at the provider, as allauth's setting of providers."""
    client = configuration.read("OIDC_CLIENT_ID") or ""
    secret = configuration.read("OIDC_CLIENT_SECRET") or ""
    given = {"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": client, "OIDC_CLIENT_SECRET": secret}
    if any(given.values()) and configuration.is_read("OIDC_CLIENT_SECRET"):
        configuration.problems += [f"{name} {_MISSING}" for name, value in given.items() if not value]
    return provider_settings(issuer, client, secret) if issuer else {}


def provider_settings(issuer: str, client: str, secret: str) -> dict[str, Any]:
    """Write allauth's setting of providers: one, with PKCE."""
    app = {
        "provider_id": PROVIDER_ID,
        "name": "Single sign-on",
        "client_id": client,
        "secret": secret,
        "settings": {"server_url": issuer.rstrip("/")},
    }
    return {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}


def _is_issuer(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return parts.scheme in schemes and bool(parts.hostname) and port != 0 and is_plain
