"""An installation in a folder of its own, used by processes of its own, as `make` would."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from workshop.localnet import evm_server, postgres, redis_server, rpc, solana_server
from workshop.localnet.folder import ROOT, Folder

SERVERS = {"postgres": postgres, "redis": redis_server, "evm": evm_server, "solana": solana_server}
# A URL in the environment keeps a server from being started.
ELSEWHERE = {
    "postgres": {"DATABASE_URL": "postgres://elsewhere/db"},
    "redis": {"REDIS_URL": "redis://elsewhere"},
    "evm": {"CHAIN_EVM_LOCALNET_RPC_URLS": "http://elsewhere"},
    "solana": {"CHAIN_SOLANA_LOCALNET_RPC_URLS": "http://elsewhere"},
}
USE = """
import json, os, signal, sys
from workshop import embedded
deadly = os.environ.get("DIE_AT")
def progress(text):
    print("progress", text, flush=True)
    if deadly and deadly in text:
        os.kill(os.getpid(), signal.SIGKILL)
embedded.start(progress)
print("ready", json.dumps(embedded.environment()), flush=True)
sys.stdin.read()
"""


class Process:
    """A process that has called `start` and has a claim on the servers until it leaves."""

    def __init__(self, command: Sequence[str], variables: dict[str, str]) -> None:
        self.popen = subprocess.Popen(
            command,
            env=variables,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.progress: list[str] = []

    def wait_until_ready(self) -> dict[str, str]:
        """Return the process's environment once its servers are ready."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            word, _, rest = line.partition(" ")
            if word == "ready":
                environment: dict[str, str] = json.loads(rest)
                return environment
            self.progress.append(rest.strip())
        self.popen.communicate()
        raise AssertionError(f"not ready: exit code {self.popen.returncode}")

    def leave(self) -> None:
        """Let the process end normally."""
        self.popen.communicate(timeout=60)
        assert self.popen.returncode == 0

    def kill(self) -> None:
        """End the process without a chance to clean up."""
        self.popen.kill()
        self.popen.communicate(timeout=30)


class Installation:
    """One data folder; `only` names the servers that are not configured elsewhere."""

    def __init__(self, path: Path, *, only: Sequence[str] = tuple(SERVERS), as_user: Sequence[str] = ()) -> None:
        self.folder = Folder(path)
        self._as_user = as_user
        self._processes: list[Process] = []
        elsewhere: dict[str, str] = {}
        for name in set(SERVERS) - set(only):
            elsewhere |= ELSEWHERE[name]
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.variables = {**kept, **elsewhere, "EMBEDDED_DIR": str(path)}

    def process(self, **variables: str) -> Process:
        """Begin a process that uses the installation."""
        command = [*self._as_user, sys.executable, "-c", USE]
        self._processes.append(Process(command, self.variables | variables))
        return self._processes[-1]

    def use(self, **variables: str) -> tuple[Process, dict[str, str]]:
        """Begin a process and wait for its servers."""
        process = self.process(**variables)
        return process, process.wait_until_ready()

    def pids(self) -> dict[str, int]:
        """Return the process ids of the servers that run."""
        found = {name: server.daemon(self.folder).pid() for name, server in SERVERS.items()}
        return {name: pid for name, pid in found.items() if pid is not None}

    def stop(self) -> None:
        """Stop whatever runs, who still uses it first."""
        for process in self._processes:
            if process.popen.returncode is None:
                process.kill()
        for server in SERVERS.values():
            server.daemon(self.folder).stop()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run SQL in the database and return the rows, if it has any."""
        with postgres.connect(self.folder) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def redis(self) -> "redis.Redis":
        """Connect to Redis."""
        return redis.Redis.from_url(redis_server.url(self.folder))

    def rpc(self, method: str, *params: Any) -> Any:
        """Ask the EVM node."""
        return rpc.request(evm_server.url(self.folder), method, *params)

    def solana(self, method: str, *params: Any) -> Any:
        """Ask the Solana node."""
        return rpc.request(solana_server.url(self.folder), method, *params)


def wait_for(condition: Any, *, seconds: float = 60) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
