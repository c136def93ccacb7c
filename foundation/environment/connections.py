"""Read addresses of databases and nodes. Every client does what an address asks for, or the address is refused.

A fault is raised as a `ValueError` that never holds the address, which may hold a password.
"""

import re
from collections.abc import Container, Mapping
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from foundation.kernel.secrecy import SecretText

POSTGRESQL = "django.db.backends.postgresql"
_POSTGRES_SCHEMES = ("postgres://", "postgresql://")
# Django's names, and libpq's.
_OF_DJANGO = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
# A host that vanished is noticed after this time, whether or not something was sent to it. In seconds, but
# `tcp_user_timeout` in milliseconds.
OF_DATABASE = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}  # fmt: skip
# There is another server to go to, so a replica is given up sooner.
OF_REPLICA = {
    "connect_timeout": 2, "keepalives_idle": 1, "keepalives_interval": 1, "keepalives_count": 2,
    "tcp_user_timeout": 3_000,
}  # fmt: skip
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_DATABASE = "is not a PostgreSQL URL with the name of a database: see that what is odd in it is percent-encoded."
_HAS_FRAGMENT = 'has a "#", which begins nothing here: write %23.'
_PORTS = re.compile(r"[0-9,]*", re.ASCII)


def read_database(url: str, options: Mapping[str, int] = OF_DATABASE) -> dict[str, Any]:
    """Read a PostgreSQL URL into Django's form; what stands behind its `?` are libpq's options, such as sslmode.

    `options` are those that hold unless the URL has them.
    libpq reads it: a second parser might disagree on where a password ends and the options begin.

    Raises:
        ValueError: it is none, has a fragment, or has an option that libpq does not know.
    """
    if not url.startswith(_POSTGRES_SCHEMES):
        raise ValueError(_NO_DATABASE)
    if "#" in url.rpartition("@")[2]:
        raise ValueError(_HAS_FRAGMENT)
    try:
        asked = {name: SecretText(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        raise ValueError("is not a PostgreSQL URL, or has an option that libpq does not know.") from None
    database: dict[str, Any] = {name: asked.pop(of_libpq, "") for name, of_libpq in _OF_DJANGO.items()}
    if not _is_whole(database):
        raise ValueError(_NO_DATABASE)
    return {"ENGINE": POSTGRESQL, **database, "OPTIONS": {**options, **asked}}


def _is_whole(database: dict[str, str]) -> bool:
    """Tell whether no part was cut in pieces by a character that the password should have percent-encoded."""
    name, host = database["NAME"], database["HOST"]
    is_host = "@" not in host or host.startswith("/")  # the folder of a socket
    return bool(name) and not {"@", "/"} & {*name} and is_host and _PORTS.fullmatch(database["PORT"]) is not None


def node_of(url: str) -> tuple[str, int, str, str]:
    """Return what identifies a node: host, port, path and query of its address.

    Case, a slash at the end, the default port and the user name do not make it another node.

    Raises:
        ValueError: it is no address of a node.
    """
    parts = _split(url, _DEFAULT_PORTS)
    if parts is None:
        raise ValueError("is not a list of http:// or https:// URLs.")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return (parts.hostname or "").rstrip("."), port, unquote(parts.path).rstrip("/"), parts.query


def host_of(url: str) -> str:
    """Return the host of a node."""
    return node_of(url)[0]


def _split(url: str, schemes: Container[str]) -> SplitResult | None:
    """Split an address; None: it is malformed, or has another scheme."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_whole else None
