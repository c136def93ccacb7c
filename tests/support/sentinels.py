"""A Redis that Sentinels watch, Debian's packages: a master, its replica and three Sentinels, all with TLS."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.support.kills import wait_until
from tests.support.ports import free_ports
from tests.support.tls import HOST, Authority

NAME, PASSWORD, PASSWORD_OF_SENTINELS = "payments", "of-the-servers", "of-the-sentinels"
_SERVERS, _SENTINELS = 2, 3


@dataclass(slots=True)
class Watched:
    """The processes, by their ports: the first server is the master."""

    ports: list[int]
    authority: Authority
    processes: list["subprocess.Popen[bytes]"]

    @property
    def url(self) -> str:
        """Give the REDIS_URL of the group."""
        sentinels = ",".join(f"{HOST}:{port}" for port in self.ports[_SERVERS:])
        login = f"ssl_ca_certs={self.authority.file}&sentinel_password={PASSWORD_OF_SENTINELS}"
        return f"rediss+sentinel://:{PASSWORD}@{sentinels}/{NAME}/1?{login}"

    def kill_master(self) -> None:
        """Kill the master as a power cut would."""
        self.processes[0].kill()
        self.processes[0].wait(timeout=30)

    def replica(self) -> "redis.Redis":
        """Open a client of the second server, which follows the master until that is away."""
        return self._client(self.ports[1], PASSWORD)

    def knows_everybody(self) -> bool:
        """Tell whether each Sentinel sees the others and the replica, and the replica has what the master has."""
        with suppress(redis.RedisError):
            states = [self._ask_sentinel(port) for port in self.ports[_SERVERS:]]
            with self.replica() as replica:
                follows = replica.info("replication")["master_link_status"] == "up"
            return follows and all(
                (state["num-other-sentinels"], state["num-slaves"]) == (_SENTINELS - 1, 1) for state in states
            )
        return False

    def _ask_sentinel(self, port: int) -> dict[str, int]:
        with self._client(port, PASSWORD_OF_SENTINELS) as client:
            return dict(client.sentinel_master(NAME))

    def _client(self, port: int, password: str) -> "redis.Redis":
        query = f"ssl_ca_certs={self.authority.file}&socket_timeout=2&socket_connect_timeout=2"
        return redis.Redis.from_url(f"rediss://:{password}@{HOST}:{port}/0?{query}")


@contextmanager
def sentinels(folder: Path) -> Iterator[Watched]:
    """Run them until the block ends; without their programs, skip. CI installs them, and fails without them."""
    programs = [shutil.which(name) for name in ("redis-server", "redis-sentinel")]
    if None in programs and "CI" not in os.environ:
        pytest.skip("Redis or its Sentinel is not installed (Debian: apt-get install redis-server redis-sentinel)")
    assert all(programs), ".ci/run installs Redis and its Sentinel"
    authority, ports = Authority(folder), free_ports(_SERVERS + _SENTINELS)
    with ExitStack() as stack:
        running = Watched(ports, authority, [])
        for index, port in enumerate(ports):
            is_server = index < _SERVERS
            path = folder / f"{port}.conf"
            path.write_text("\n".join([*_common(port, folder, authority), *_lines(index, ports)]) + "\n")
            process = subprocess.Popen([str(programs[not is_server]), path], cwd=folder, stdout=subprocess.DEVNULL)
            stack.callback(process.wait, timeout=30)
            stack.callback(process.kill)
            running.processes.append(process)
        wait_until(running.knows_everybody, "the Sentinels see each other and the servers")
        yield running


def _common(port: int, folder: Path, authority: Authority) -> list[str]:
    return [
        "port 0",
        f"tls-port {port}",
        f"bind {HOST}",
        f"dir {folder}",
        f"logfile {folder}/{port}.log",
        "tls-replication yes",
        "tls-auth-clients no",
        f"tls-ca-cert-file {authority.file}",
        f"tls-cert-file {authority.chain}",
        f"tls-key-file {authority.key}",
    ]


def _lines(index: int, ports: list[int]) -> list[str]:
    master = f"{HOST} {ports[0]}"
    if index >= _SERVERS:
        return [
            f"requirepass {PASSWORD_OF_SENTINELS}",
            f"sentinel monitor {NAME} {master} 2",
            f"sentinel auth-pass {NAME} {PASSWORD}",
            f"sentinel down-after-milliseconds {NAME} 1000",
            f"sentinel failover-timeout {NAME} 5000",
        ]
    lines = [f"requirepass {PASSWORD}", f"masterauth {PASSWORD}", 'save ""', "repl-diskless-sync-delay 0"]
    return lines + ([f"replicaof {master}"] if index else [])
