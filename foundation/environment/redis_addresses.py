"""Read the address of Redis: one server, or a group that Sentinels watch. Both clients do what it asks for. Pure.

A fault is raised as a `ValueError` that never holds the address, which may hold a password.
"""

import re
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from redis.backoff import NoBackoff
from redis.retry import Retry

from foundation.kernel.secrecy import SecretText

_SERVER, _GROUP = ("redis", "rediss"), ("redis+sentinel", "rediss+sentinel")
_DATABASE = re.compile(r"/?|/[0-9]+", re.ASCII)
_NAME_AND_DATABASE = re.compile(r"/(?P<name>[A-Za-z0-9._-]+)(/(?P<database>[0-9]+))?", re.ASCII)
_SENTINEL = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?", re.ASCII)
_AFTER_HOSTS = re.compile(r"[/?#]")
_SENTINEL_PORT = 26379
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_VERIFYING = {"ssl_cert_reqs": ("required", "cert_required"), "ssl_check_hostname": ("true", "1", "yes")}
_OF_SENTINELS = ("sentinel_username", "sentinel_password")
# How long Celery waits for a server or a Sentinel.
_BROKER_TIMES = {"socket_timeout": 5, "socket_connect_timeout": 2}
# A Sentinel that is away is asked once, not ten times: there are others.
_ASK_ONCE = Retry(NoBackoff(), 0)
_NO_SERVER = "is not a redis:// or rediss:// URL of one server, with nothing or a number for its path."
_NO_GROUP = (
    "is not a redis+sentinel:// or rediss+sentinel:// URL with host:port,host:port,… of Sentinels, and /NAME or "
    "/NAME/NUMBER for its path: the name that they know the master by, and a database."
)


@dataclass(frozen=True, slots=True)
class SentinelGroup:
    """The master that Sentinels at some `addresses` know by a `name`; how to speak to it, and to them."""

    name: str
    addresses: tuple[tuple[str, int], ...]
    to_server: dict[str, Any] = field(repr=False)
    to_sentinels: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Redis:
    """One address for two clients: our own takes `url` or `group`, Celery what is named after the broker."""

    url: str
    broker_url: str
    broker_ssl: dict[str, Any] | None = None
    group: SentinelGroup | None = None

    @property
    def broker_options(self) -> dict[str, Any]:
        """Tell Celery's transport how long to wait, and how to find the master of a group."""
        if self.group is None:
            return dict(_BROKER_TIMES)
        to_sentinels = {**self.group.to_sentinels, **_BROKER_TIMES}
        return {**_BROKER_TIMES, "master_name": self.group.name, "sentinel_kwargs": to_sentinels}


def read_redis(url: str) -> Redis:
    """Read a Redis URL; with TLS, the certificate and the host's name in it are always verified.

    Raises:
        ValueError: it is no such URL, asks not to verify, or has an option that not both clients know.
    """
    try:
        parts = _split(url)
    except ValueError:
        raise ValueError(_NO_SERVER) from None
    if ";" in url:  # Celery would split the address there
        raise ValueError(_NO_SERVER)
    read = _read_group if parts.scheme in _GROUP else _read_server
    found = read(parts)
    if "#" in url:
        raise ValueError('has a "#", which begins nothing here: write %23.')
    return found


def _split(url: str) -> SplitResult:
    """Split a URL. From Python 3.13 on, `urlsplit` takes an address in brackets only where it is the one host."""
    scheme, _, rest = url.partition("://")
    if scheme not in _GROUP:
        return urlsplit(url)
    hosts = _AFTER_HOSTS.split(rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://group{rest.removeprefix(hosts)}")._replace(netloc=hosts)


def _read_server(parts: SplitResult) -> Redis:
    try:
        is_whole = parts.scheme in _SERVER and parts.hostname and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or "," in parts.netloc.rpartition("@")[2] or not _DATABASE.fullmatch(parts.path):
        raise ValueError(_NO_SERVER)
    tls = _read_tls(parts, _options(parts))
    plain = SecretText(urlunsplit(parts._replace(query="", fragment="")))
    if tls is None:
        return Redis(plain, plain)
    query = urlencode({**tls, "ssl_cert_reqs": "required", "ssl_check_hostname": "true"})
    return Redis(SecretText(f"{plain}?{query}"), plain, tls)


def _read_group(parts: SplitResult) -> Redis:
    login, _, hosts = parts.netloc.rpartition("@")
    sentinels = [_SENTINEL.fullmatch(one) for one in hosts.split(",")]
    path = _NAME_AND_DATABASE.fullmatch(parts.path)
    if path is None or not all(sentinels):
        raise ValueError(_NO_GROUP)
    options = _options(parts)
    to_sentinels = {name.removeprefix("sentinel_"): options.pop(name) for name in _OF_SENTINELS if name in options}
    tls = _read_tls(parts, options)
    of_tls = {} if tls is None else {"ssl": True, **tls}
    user, _, password = login.partition(":")
    names = {"username": user, "password": password}
    database = path["database"] or "0"
    group = SentinelGroup(
        path["name"],
        tuple((one["host"].strip("[]"), int(one["port"] or _SENTINEL_PORT)) for one in sentinels if one),
        {**{name: SecretText(unquote(value)) for name, value in names.items() if value}, "db": int(database), **of_tls},
        {**to_sentinels, "retry": _ASK_ONCE, **of_tls},
    )
    at = f"{login}@" if login else ""
    broker = ";".join(f"sentinel://{at}{one[0]}/{database}" for one in sentinels if one)
    return Redis(SecretText(urlunsplit(parts)), SecretText(broker), tls, group)


def _options(parts: SplitResult) -> dict[str, str]:
    return {name: SecretText(value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}


def _read_tls(parts: SplitResult, options: dict[str, str]) -> dict[str, Any] | None:
    """Read how to speak TLS; None: not at all."""
    has_tls = parts.scheme.startswith("rediss")
    if not options.keys() <= ({*_TLS_FILES, *_VERIFYING} if has_tls else set()):
        raise ValueError("has an option that means nothing: rediss:// takes ssl_ca_certs, ssl_certfile, ssl_keyfile.")
    if any(options[name].lower() not in wanted for name, wanted in _VERIFYING.items() if name in options):
        raise ValueError("asks not to verify the server: leave ssl_cert_reqs and ssl_check_hostname out.")
    if not has_tls:
        return None
    files = {name: str(options[name]) for name in _TLS_FILES if name in options}
    return {**files, "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
