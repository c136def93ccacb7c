"""Look at Redis, at the queues that it holds, and at the releases that processes say there they are of."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings

from foundation.beat import MOST_WAITING
from foundation.environment.process_types import SERVERS
from foundation.heartbeats import read_heartbeats
from foundation.redis_client import open_redis
from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning
from operators.doctor.looking import is_this_machine

PATIENCE_S = 3
# GETEX and the like; the wheel of the embedded mode has it, Debian has 7.
_OLDEST = (6, 2)
_MANY_WAITING = 100
_NEARLY_FULL = 0.9
_PORT = re.compile(r":[0-9]+$")


def _info() -> dict[str, Any]:
    found: Any = open_redis(PATIENCE_S).info("all")
    return dict(found)


def find_unreachable_redis() -> Iterator[Diagnosis]:
    """Connect to Redis."""
    if not settings.REDIS_URL:
        yield skipped("connection", "There is no REDIS_URL that can be read.")
        return
    try:
        info = _info()
    except redis.AuthenticationError as trouble:
        yield error("connection", f"Redis refuses us: {trouble}", "Correct the user or the password in REDIS_URL")
    except (redis.RedisError, OSError) as trouble:
        says = f"Redis does not answer within {PATIENCE_S} s: {type(trouble).__name__}. {trouble}"
        yield error("connection", says, "Start Redis, or correct REDIS_URL; a firewall between may drop what is sent")
    else:
        yield ok("connection", f"Redis {info['redis_version']} answers.")


def find_unfit_redis() -> Iterator[Diagnosis]:
    """See that Redis is new enough, takes writes, and throws no task away."""
    info = _info()
    version = tuple(int(part) for part in info["redis_version"].split(".")[:2])
    if version < _OLDEST:
        yield error(
            "version",
            f"Redis {info['redis_version']} is too old.",
            "Move to Redis 6.2 or later",
        )
    policy = info.get("maxmemory_policy", "unknown")
    if policy in ("noeviction", "unknown"):
        yield ok("maxmemory-policy", f"It is {policy}.")
    else:
        says = f"It is {policy}: when memory is short, Redis drops tasks and counts, silently."
        yield error("maxmemory-policy", says, "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf")
    if info.get("role", "master") != "master":
        yield error(
            "role", "It is a replica: nothing can be written.", "Name the primary, or the Sentinels, in REDIS_URL"
        )
    yield from _memory(info)
    yield from _persistence(info)


def _memory(info: dict[str, Any]) -> Iterator[Diagnosis]:
    used, most = info["used_memory"], info.get("maxmemory", 0)
    if most and used > most * _NEARLY_FULL:
        says = f"{used / most:.0%} of maxmemory is used: beyond it no task is taken."
        yield warning(
            "memory", says, f"redis-cli CONFIG SET maxmemory {4 * most}; and see that workers take their tasks"
        )
    else:
        yield ok("memory", f"{used / 1e6:.0f} MB are used.")


def _persistence(info: dict[str, Any]) -> Iterator[Diagnosis]:
    """Redis has nothing that could be lost, but it stops taking writes where it fails to save them."""
    failed = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name, "ok") != "ok"]
    if failed:
        says = f"It cannot save to its disk ({', '.join(failed)}), and then refuses writes."
        yield error(
            "persistence",
            says,
            "Make room on its disk, or redis-cli CONFIG SET save '' appendonly no: it holds nothing to keep",
        )
    else:
        yield ok(
            "persistence",
            f"appendonly is {'on' if info.get('aof_enabled') else 'off'}; either will do: it holds nothing to keep.",
        )


def find_open_redis() -> Iterator[Diagnosis]:
    """See that the way to Redis is encrypted and needs a password, unless it is on this machine."""
    parts = urlsplit(settings.REDIS_URL)
    login, _, servers = parts.netloc.rpartition("@")  # several, if they are Sentinels
    if all(is_this_machine(_PORT.sub("", server).strip("[]")) for server in servers.split(",")):
        yield ok("TLS", "Redis is on this machine.")
        return
    if parts.scheme.startswith("rediss"):
        yield ok("TLS", "The server's certificate and name are verified.")
    else:
        says = "The connection crosses the network without TLS: whoever sits between can read and make tasks."
        yield error(
            "TLS", says, "Begin REDIS_URL with rediss://, and behind it ?ssl_ca_certs=FILE for an authority of your own"
        )
    if not login.partition(":")[2]:
        says = "It lets anybody in who reaches it: who writes there makes our workers do what it says."
        yield error(
            "password", says, "redis-cli CONFIG SET requirepass '…', and in redis.conf; rediss://:…@host in REDIS_URL"
        )


def find_long_queues() -> Iterator[Diagnosis]:
    """Count the tasks that wait for each type of worker."""
    client: Any = open_redis(PATIENCE_S)
    lengths: dict[str, int] = {queue: client.llen(queue) for queue in SERVERS}
    for queue, length in lengths.items():
        process = SERVERS[queue].value
        if length < _MANY_WAITING:
            yield ok(queue, f"{length} tasks wait.")
            continue
        says = f"{length} tasks wait in the queue {queue}: {process} does not take them, or not fast enough."
        found = error if length >= MOST_WAITING else warning
        yield found(queue, says, f"Start {process}, or more of it: docs/operate/processes.md")


def find_mixed_versions() -> Iterator[Diagnosis]:
    """See that all processes are of one release; while one is being deployed, they are not."""
    alive = [one for one in read_heartbeats() if one.is_lately]
    versions = sorted({one.version for one in alive})
    if len(versions) > 1:
        of = "; ".join(f"{one.process} {one.name}: {one.version}" for one in alive)
        yield warning(
            "versions",
            f"Processes of several releases run. {of}",
            "Restart those of the earlier one: docs/operate/upgrading.md",
        )
    else:
        yield ok("versions", f"All are of one release{': ' + versions[0] if versions else ''}.")
